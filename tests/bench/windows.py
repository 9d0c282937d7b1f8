"""Local attention beside full attention on this machine's CPU, by the length of a row.

    python -m tests.bench.windows [--rounds 5] [--window 128] [--out FILE]

One attention part of bert-base's widths, forward alone, forward and backward, and both with
dropout, in turns; medians of milliseconds a thousand tokens, and the ratio.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch

from bertc.ir import blocks
from bertc.model import EncoderInputs
from bertc.model.attend import attend
from bertc.model.masks import kernel_mask

LENGTHS = (256, 512, 1024, 4096, 8192)
HEADS, WIDTH, TOKENS = 2, 64, 8192
WAYS = {"evaluated": None, "trained": 0.0, "trained with dropout": 0.1}


def once(seq: int, reach: int | None, rate: float | None) -> float:
    """Seconds of all rows."""
    rows = max(1, TOKENS // seq)
    qkv = [torch.randn(rows, seq, HEADS, WIDTH).transpose(1, 2) for _ in range(3)]
    inputs = EncoderInputs(torch.zeros(rows, seq, dtype=torch.long))
    mask = kernel_mask(inputs, False, False, reach)
    began = time.perf_counter()
    if rate is None:
        with torch.no_grad():
            attend(*qkv, mask, 0.0)
    else:
        qkv = [x.requires_grad_() for x in qkv]
        torch.autograd.grad(attend(*qkv, mask, rate).sum(), qkv)
    return time.perf_counter() - began


def milliseconds(seq: int, reach: int, rate: float | None, rounds: int) -> dict[str, float]:
    """Medians of both, in milliseconds a thousand tokens."""
    found: dict[str, list[float]] = {"full": [], "local": []}
    for round_ in range(rounds + 1):
        for name, own in (("full", None), ("local", reach)):
            seconds = once(seq, own, rate)
            if round_:
                found[name].append(1e6 * seconds / TOKENS)
    medians = {name: statistics.median(each) for name, each in found.items()}
    return {**medians, "local / full": medians["local"] / medians["full"]}


def main() -> None:
    """Each length, each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--block", type=int, default=blocks.SMALLEST_BLOCK)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    blocks.SMALLEST_BLOCK = options.block
    found = {
        f"{seq} {way}": milliseconds(seq, options.window // 2, rate, options.rounds)
        for seq in LENGTHS
        for way, rate in WAYS.items()
    }
    report = {
        "versions": {"torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "window": options.window,
        "milliseconds a thousand tokens": found,
    }
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        options.out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
