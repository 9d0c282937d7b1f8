"""FLOPs to the held-out loss of a deep model: trained deep from the start, and grown by stacking.

    python tests/bench/growth.py CORPUS [--steps 600] [--layers 4] [--seeds 0 1 2]

Both runs have the same text, rate and batch, and a process of one thread each. The one that grows
has a quarter of its layers for a quarter of the steps, half of them for another, and all of them
for the rest. Prints a JSON object: seed by seed the loss that the deep run ends with, and the FLOPs
that each took until a held-out loss was as low and stayed so on average of three evaluations.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bertc.api import resolve
from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved

SPEC = """
hidden=128 heads=4 layers={layers} seq=32 batch=32 norm=pre dropout=0 vocab=wordpiece(1000)
data=files("{corpus}") holdout=5% optimizer={rule} seed={seed}
eval_every={every} eval_examples=512 save_every=100k log_every=100 device=cpu compile=off
"""
STAGES = """
stage "quarter" {{ layers={0} steps={3} optimizer={5} }}
stage "half" {{ layers={1} steps={3} optimizer={5} }}
stage "whole" {{ layers={2} steps={4} optimizer={5} }}
"""
RULE = "adamw(lr=5e-4, warmup=50, schedule=constant)"
SMOOTHED = 3


def main() -> None:
    """Each seed's two runs at once, and what their evaluations found."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("corpus", type=Path)
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--grow", default="stack")
    chosen = options.parse_args()
    found = [_run(chosen, seed) for seed in chosen.seeds]
    figures = {"steps": chosen.steps, "layers": chosen.layers, "grow": chosen.grow, "runs": found}
    print(json.dumps(figures))


def _run(chosen: argparse.Namespace, seed: int) -> dict[str, Any]:
    specs = _specs(chosen, seed)
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        started = {kind: _start(spec, Path(folder, kind)) for kind, spec in specs.items()}
        for kind, process in started.items():
            if process.wait():
                raise SystemExit(f"the {kind} run failed")
        programs = {kind: resolve(spec) for kind, spec in specs.items()}
        curves = {kind: _curve(Path(folder, kind), programs[kind]) for kind in specs}
        seconds = {kind: _seconds(Path(folder, kind)) for kind in specs}
    target = curves["deep"][-1][1]
    reached = {kind: _reached(curve, target) for kind, curve in curves.items()}
    ratio = reached["grown"] / reached["deep"] if reached["grown"] else None
    return {
        "seed": seed,
        "deep_loss": round(target, 4),
        "grown_loss": round(curves["grown"][-1][1], 4),
        "seconds": seconds,
        "flops_in_all": {kind: curve[-1][0] for kind, curve in curves.items()},
        "flops_to_that_loss": reached,
        "ratio": ratio and round(ratio, 3),
        "curves": {kind: [[f"{f:.3g}", round(x, 4)] for f, x in c] for kind, c in curves.items()},
    }


def _specs(chosen: argparse.Namespace, seed: int) -> dict[str, str]:
    own = {"layers": chosen.layers, "corpus": chosen.corpus, "every": max(1, chosen.steps // 40)}
    own |= {"rule": RULE, "seed": seed}
    deep, part = SPEC.format(**own), chosen.steps // 4
    depths = (chosen.layers // 4, chosen.layers // 2, chosen.layers)
    stages = STAGES.format(*depths, part, chosen.steps - 2 * part, RULE)
    return {"deep": f"{deep} steps={chosen.steps}", "grown": f"{deep} grow={chosen.grow} {stages}"}


def _start(spec: str, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "bertc.cli", "train", spec, "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def _curve(run: Path, program: Resolved) -> list[tuple[int, float]]:
    """FLOPs so far and the held-out loss, a mean of the last evaluations."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [(line["step"], line["losses"]["mlm"]) for line in lines if line["kind"] == "eval"]
    costs = [stage.flops.train_per_step for stage in estimate(program, "cpu").stages]
    curve = []
    for index, (step, _) in enumerate(found):
        last = [loss for _, loss in found[max(0, index - SMOOTHED + 1) : index + 1]]
        flops = sum(
            cost * max(0, min(step - stage.first_step, stage.steps))
            for cost, stage in zip(costs, program.stages, strict=True)
        )
        curve.append((flops, sum(last) / len(last)))
    return curve


def _seconds(run: Path) -> float:
    """Of training, without evaluations."""
    seconds: float = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["seconds"]
    return round(seconds, 1)


def _reached(curve: list[tuple[int, float]], loss: float) -> int | None:
    return next((flops for flops, found in curve if found <= loss), None)


if __name__ == "__main__":
    main()
