"""A CPU's attention with dropout: all scores of a batch together, and in parts that caches hold.

    python -m tests.bench.attention [--rounds 11] [--out FILE]

Forward and backward in bf16, in turns; the median of the milliseconds of each, and the ratio.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch

from bertc.model import attend
from bertc.model.masks import Mask

SHAPES = {
    "bert-mini, 32 x 128, packed": (32, 4, 128, 64, True),
    "bert-base, 8 x 128": (8, 12, 128, 64, False),
    "bert-base, 8 x 512": (8, 12, 512, 64, False),
    "bert-base, 8 x 512, packed": (8, 12, 512, 64, True),
    "MiniLM, 5 x 312, packed": (5, 12, 312, 32, True),
}
"""Rows, heads, tokens, width of a head, and whether two examples share a row."""
RATE = 0.1


def milliseconds(shape: tuple[int, int, int, int, bool], rounds: int) -> dict[str, float]:
    """Medians of both ways, after two rounds that do not count."""
    b, n, s, d, packed = shape
    made = (torch.randn(b, s, n, d).bfloat16() for _ in range(3))
    qkv = [x_bsnd.transpose(1, 2).requires_grad_() for x_bsnd in made]
    ids_bs = (torch.arange(s) >= torch.randint(s // 3, 2 * s // 3, (b, 1))).long()
    mask = (ids_bs[:, :, None] == ids_bs[:, None])[:, None] if packed else None
    sizes = {"together": 1 << 60, "in parts": attend.SCORES_AT_ONCE}
    found: dict[str, list[float]] = {name: [] for name in sizes}
    for round_ in range(rounds + 2):
        for name, size in sizes.items():
            attend.SCORES_AT_ONCE = size
            began = time.perf_counter()
            mixed = attend.attend(*qkv, Mask(mask), RATE)
            torch.autograd.grad(mixed.sum(), qkv)
            if round_ >= 2:
                found[name].append(1e3 * (time.perf_counter() - began))
    attend.SCORES_AT_ONCE = sizes["in parts"]
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    """Each shape both ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {name: milliseconds(shape, options.rounds) for name, shape in SHAPES.items()}
    report = {
        "versions": {"torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "milliseconds": {
            name: {**times, "parts / together": times["in parts"] / times["together"]}
            for name, times in found.items()
        },
    }
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
