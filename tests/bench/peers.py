"""Vectors and scores of pairs of short texts, next to sentence-transformers, in turns.

    python -m tests.bench.peers --init DIR --table SST-2/train.tsv.gz [--rounds 3]

--init is a folder of all-MiniLM-L6-v2. Of each turn, texts in and vectors or scores out, the wall
clock and the CPU seconds of this process count. Prints medians of bertc and of the other, and the
median ratio of turns side by side. Fine-tuning next to the Trainer: tests.campaigns.trainer.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer

import bertc
from bertc.run.models.loading import place_on_device
from bertc.run.models.runs import export_run
from tests.campaigns.beginnings import lines, write
from tests.campaigns.options import read_options

TEXTS = 320


def main() -> None:
    options = read_options(__doc__, init=Path, table=Path, rounds=3)
    init = options.init.resolve()
    texts = [line.split("\t")[0] for line in lines(options.table)[1 : TEXTS + 1]]
    pairs = list(zip(texts, texts[1:], strict=False))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        judged = [f"{a}\t{b}\t{n}" for a, b in pairs for n in (0, 1)]
        write("pairs.tsv", ["query\tpassage\tlabel", *judged])
        bertc.train(f"init='{init}' task=rerank('pairs.tsv') seq=128 steps=1", "ranker")
        export_run(Path("ranker"), Path("exported"))
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            encoder, ranker = bertc.load(init), bertc.load("ranker")
            place_on_device(encoder, "cpu", precision)
            place_on_device(ranker, "cpu", precision)
            loading = {"device": "cpu", "model_kwargs": {"dtype": dtype}}
            theirs = SentenceTransformer(str(init), **loading), CrossEncoder("exported", **loading)
            in_turns("vectors", precision, options.rounds, encoder.embed, theirs[0].encode, texts)
            in_turns("pairs", precision, options.rounds, ranker.predict, theirs[1].predict, pairs)


def in_turns(
    what: str, precision: str, rounds: int, ours: Callable[..., object],
    theirs: Callable[..., object], inputs: list[object],
) -> None:  # fmt: skip
    both = partial(ours, inputs), partial(theirs, inputs)
    turns = [[spent(call) for call in both] for _ in range(rounds + 1)][1:]
    for clock, name in enumerate(("wall", "CPU")):
        mine, other = ([pair[side][clock] for pair in turns] for side in (0, 1))
        ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
        medians = f"{statistics.median(mine):.2f} s, {statistics.median(other):.2f} s"
        print(f"{what}, {precision} {name}: {medians}, ratio {ratio:.2f}", flush=True)


def spent(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall clock and of the CPU."""
    began, used = time.perf_counter(), sum(os.times()[:2])
    call()
    return time.perf_counter() - began, sum(os.times()[:2]) - used


if __name__ == "__main__":
    main()
