"""A small ModernBERT's training step beside transformers' own, by the length of a row.

    python -m tests.bench.modern [--rounds 3] [--only 512] [--out FILE]

ModernBERT-base's proportions at a third of its width: 7 layers of which every third is global, 256
wide, gates of 384, windows of 128, 50,368 tokens. Steps in turns, a process each: bertc, and
ModernBertForMaskedLM with sdpa in a plain loop with torch's fused AdamW, in fp32 and, where this
CPU has it, bf16; both compiled as well at the lengths of COMPILED. A step reads 2,048 tokens,
above that length one row. The file is written after every length.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bertc.api import resolve
from bertc.lab.bench.report import BenchReport
from bertc.lab.bench.run import bench

MINI = (
    "extends modernbert layers=7 hidden=256 ffn=384 dropout=0 objective=mlm(p=30%) format=blocks "
    "optimizer=adamw(lr=1e-4, clip=0) steps=1000"
)
LENGTHS = (512, 4096, 1024, 2048, 8192)
"""The two that are compiled too come first."""
COMPILED = (512, 4096)
TOKENS = 2048


def measured(seq: int, rounds: int) -> BenchReport:
    """All contenders at one length, interleaved."""
    batch = max(1, TOKENS // seq)
    resolved = resolve(f"{MINI} seq={seq} batch={batch} microbatch={batch}")
    return bench(resolved, against="transformers", rounds=rounds, compiled=seq in COMPILED)


def table(reports: dict[int, BenchReport]) -> dict[str, dict[str, dict[int, float]]]:
    """By contender and length: milliseconds a thousand tokens, and times as long as bertc's own.

    ``grown`` is the first over that at the shortest length, for FLOPs as well.
    """
    cost, behind, flops = dict[str, dict[int, float]](), dict[str, dict[int, float]](), {}
    for seq, report in sorted(reports.items()):
        tokens = seq * report.resolved.stages[0].batch
        flops[seq] = report.estimate.flops.train_per_step / tokens
        for timing in report.timings:
            name = timing.contender.name
            cost.setdefault(name, {})[seq] = 1e6 * timing.median / tokens
            behind.setdefault(name, {})[seq] = timing.median / report.timings[0].median
    grown = {
        name: {seq: each / of[min(of)] for seq, each in of.items()}
        for name, of in {**cost, "FLOPs of bertc": flops}.items()
    }
    return {"milliseconds a thousand tokens": cost, "times bertc's": behind, "grown": grown}


def main() -> None:
    """Each length; a table after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=int, choices=LENGTHS, nargs="+", default=LENGTHS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    reports = dict[int, BenchReport]()
    for seq in options.only:
        reports[seq] = measured(seq, options.rounds)
        print(reports[seq].summary(), flush=True)
        found: dict[str, Any] = {
            "spec": MINI,
            **table(reports),
            "measurements": [report.fields() for report in reports.values()],
        }
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(table(reports), indent=1))


if __name__ == "__main__":
    main()
