"""Fine-tuning beside the Trainer of transformers: the same weights, examples and settings.

    python -m tests.bench.tuning MODEL mrpc=glue/MRPC rte=glue/RTE ... [--seeds 0 1 2] [--steps N]
        [--epochs 3] [--rate 5e-5] [--batch 32] [--seq N] [--bf16] [--json FILE]

MODEL is a Hugging Face folder; NAME=PATH names a task of GLUE and its official files, or
squad=TRAIN,DEV, ner=FOLDER, upos=FOLDER. In turn, seed by seed, each system trains and answers the
dev part. Seconds are those of training alone; the Trainer pads each batch to its longest row. It
computes in fp32, as it does unless told otherwise, with ``--bf16`` in autocast. Needs transformers
and accelerate.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WARMUP, DECAY = 0.1, 0.01
SYSTEMS = ("bertc", "transformers")


def task_text(name: str, path: str) -> str:
    """The task as a spec has it."""
    match name:
        case "squad":
            train, dev = path.split(",")
            return f"squad('{train}', dev='{dev}')"
        case "squad2":
            train, dev = path.split(",")
            return f"squad('{train}', dev='{dev}', version=2)"
        case "ner" | "upos" | "pos":
            return f"tagging('{path}', {name})"
        case _:
            return f"glue({name}, '{path}')"


def spec_text(options: argparse.Namespace, task: str, seed: int, steps: int, seq: int) -> str:
    """The same settings for both: Adam as the Trainer has it, whatever the recipe has."""
    rule = (
        f"adam(lr={options.rate}, warmup={WARMUP}, decay={DECAY}, eps=1e-8, betas=[0.9, 0.999], "
        "schedule=polynomial, bias_correction=true, decay_exempt=norms-and-biases, clip=1, "
        "layer_decay=1, gradient_decay=1)"
    )
    return (
        f"init='{options.model}' task={task} optimizer={rule} batch={options.batch} seq={seq} "
        f"steps={steps} seed={seed} eval_every={steps} save_every={steps} log_every={steps}"
    )


def ours(spec: str) -> dict[str, Any]:
    """Train in a process of its own and read its metrics."""
    folder = Path(tempfile.mkdtemp())
    try:
        started = time.perf_counter()
        command = [sys.executable, "-m", "bertc.cli", "train", spec, "--out", str(folder / "run")]
        subprocess.run(command, check=True, capture_output=True)
        whole = time.perf_counter() - started
        lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        last = json.loads(lines[-1])
        ((_, parts),) = last["scores"].items()
        return {"scores": next(iter(parts.values())), "seconds": last["seconds"], "whole": whole}
    finally:
        shutil.rmtree(folder)


def theirs(spec: str, bf16: bool) -> dict[str, Any]:
    """As ``ours``, by the Trainer, in a process of its own too."""
    code = f"from tests.bench.tuning_trainer import main; main({spec!r}, {bf16!r})"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    started = time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return {**result, "whole": time.perf_counter() - started}


def measure(options: argparse.Namespace, name: str, path: str, seed: int) -> dict[str, Any]:
    """Both systems on one task with one seed."""
    from bertc.base.diagnostics import Diagnostics
    from bertc.data.layouts import training_examples
    from bertc.lang import load

    task = task_text(name, path)
    (program,) = load(f"task={task}", (), Diagnostics())
    count = len(training_examples(program.settings["objective"].value[0].objective))
    steps = options.steps or math.ceil(options.epochs * count / options.batch)
    seq = options.seq or (384 if name.startswith("squad") else 128)
    spec = spec_text(options, task, seed, steps, seq)
    return {
        "seed": seed,
        "examples": count,
        "steps": steps,
        "rate": options.rate,
        "batch": options.batch,
        "seq": seq,
        "theirs_in": "bf16" if options.bf16 else "fp32",
        "threads": int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1),
        "bertc": ours(spec),
        "transformers": theirs(spec, options.bf16),
    }


def shown(values: list[float]) -> str:
    """Mean, and its deviation in brackets, in percent."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.1f} ({100 * spread:.1f})"


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Means and deviations over the seeds, and medians of seconds where most threads worked."""
    lines = [
        "| task | seeds | steps | metric | bertc | transformers | seconds | theirs | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        most = max(run["threads"] for run in runs)
        timed = [run for run in runs if run["threads"] == most]
        one, other = (statistics.median(r[s]["seconds"] for r in timed) for s in SYSTEMS)
        for metric in runs[0]["bertc"]["scores"]:
            means = [shown([run[s]["scores"][metric] for run in runs]) for s in SYSTEMS]
            lines.append(
                f"| {name} | {len(runs)} | {runs[0]['steps']} | {metric} | {means[0]} | "
                f"{means[1]} | {one:.0f} | {other:.0f} | {one / other:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--json", type=Path, help="added to, if it is there")
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    for task in options.tasks:
        name, _, path = task.partition("=")
        for seed in options.seeds:
            results.setdefault(name, []).append(measure(options, name, path, seed))
            print(name, results[name][-1], file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
