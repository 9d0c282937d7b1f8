"""Documents of natural length, packed and padded: real tokens a second, interleaved in one process.

    python tests/bench/packing.py [--spec bert-mini] [--rounds 9] [--seq 128] [--batch 32]

The text is made up: documents of 1/8 to 7/8 of a row, all lengths alike, so that padded rows are
half empty. Each round takes a training step on padded rows, then one on packed rows of the same
number. Prints the medians, the fill and their ratio as a JSON object.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bertc.api import resolve
from bertc.data.cache.progress import Silent
from bertc.data.corpus import prepare
from bertc.ir.program.model import model_weights
from bertc.learn.objectives import Inputs
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.machine.machine import determinism, make_plan
from bertc.model import build

WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "bdfgklmn"]


def main() -> None:
    """Make the text, take the steps in turn, compare."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--spec", default="bert-mini")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--seq", type=int, default=128)
    options.add_argument("--batch", type=int, default=32)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="packing-") as name, determinism():
        corpus = Path(name) / "text.txt"
        corpus.write_text(_text(chosen.seq, 4000))
        steps = {
            kind: _steps(chosen, corpus, pack=kind == "packed") for kind in ("padded", "packed")
        }
        seconds: dict[str, list[float]] = {kind: [] for kind in steps}
        tokens = dict.fromkeys(steps, 0)
        for round_ in range(chosen.rounds + 2):
            for kind, step in steps.items():
                began = time.perf_counter()
                read = step(round_)
                if round_ >= 2:
                    seconds[kind].append(time.perf_counter() - began)
                    tokens[kind] += read
    speed = {
        kind: tokens[kind] / chosen.rounds / statistics.median(seconds[kind]) for kind in steps
    }
    rows = chosen.rounds * chosen.batch * chosen.seq
    figures = {
        "spec": chosen.spec,
        "rows": f"{chosen.batch} x {chosen.seq}",
        "torch": torch.__version__,
        "fill": {kind: round(tokens[kind] / rows, 3) for kind in steps},
        "ms": {kind: round(1e3 * statistics.median(s), 1) for kind, s in seconds.items()},
        "real_tokens_per_second": {kind: round(found) for kind, found in speed.items()},
        "ratio": round(speed["packed"] / speed["padded"], 2),
    }
    print(json.dumps(figures))


def _text(seq: int, documents: int) -> str:
    """Documents of one line; a word is one token once the vocabulary is learned."""
    draw = random.Random(0)
    lengths = (draw.randint(seq // 8, seq * 7 // 8) - 3 for _ in range(documents))
    return "\n\n".join(" ".join(draw.choices(WORDS, k=n)) + "." for n in lengths) + "\n"


def _steps(chosen: argparse.Namespace, corpus: Path, pack: bool) -> Callable[[int], int]:
    """Takes step k and says how many real tokens it read."""
    resolved = resolve(
        chosen.spec,
        [f"seq={chosen.seq}", f"batch={chosen.batch}", "steps=1000", "objective=mlm",
         "format=doc-sentences", f"pack={str(pack).lower()}", "optimizer=adamw(warmup=10)",
         f'data=files("{corpus}", sentences=lines)'],
    )  # fmt: skip
    stage, plan = resolved.stages[0], make_plan(resolved)
    text = prepare(resolved, corpus.parent / "cache", Silent())
    device = torch.device(plan.device)
    model = build(resolved, plan.device).train()
    model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    weights = dict(model.named_parameters())
    table = model_weights(resolved)
    moments = zero_moments(stage.optimizer, table, weights)
    rule = make_rule(stage.optimizer, table, weights, moments, 0)
    objective = make_objective(model, stage, compiled=False)
    vocab = vocab_tensors(text.vocabulary, device)
    step = TrainStep(model, stage, vocab, rule, objective, chosen.batch, seed=0)

    def run(number: int) -> int:
        inputs: Inputs = to_inputs(text.stage(0).train(number), device)
        step(step.read(inputs), number, 1e-4)
        return int(inputs.lengths.sum())

    return run


if __name__ == "__main__":
    main()
