"""Tokens a second of the corruption alone, for each unit, on one core.

Run as ``python tests/bench/corruption.py``; the best of several passes over fresh batches counts.
"""

import time
from types import SimpleNamespace

import torch

from bertc.ir.objective import Mlm, NgramUnit, SpanUnit, Term, TokenUnit, Unit, WordUnit
from bertc.objectives import Inputs, Tables, corrupt

SHAPES = ((32, 128), (256, 128), (32, 512))
VOCAB, SPECIALS, PIECES = 30_522, 1000, 0.25


def vocabulary() -> Tables:
    """A made-up WordPiece vocabulary whose last quarter continues words."""
    ids = torch.arange(VOCAB)
    return Tables(
        size=VOCAB, pad=0, cls=101, sep=102, mask=103,
        word_start=ids < VOCAB * (1 - PIECES), special=ids < SPECIALS,
        unigram_cdf=torch.linspace(0, 1, VOCAB),
    )  # fmt: skip


def batch(rows: int, seq: int, first: int) -> Inputs:
    """Full rows of random tokens between [CLS] and two [SEP]."""
    ids = torch.randint(SPECIALS, VOCAB, (rows, seq))
    ids[:, 0], ids[:, seq // 2], ids[:, -1] = 101, 102, 102
    zeros = torch.zeros(rows, dtype=torch.long)
    lengths = torch.full((rows,), seq)
    return Inputs(
        ids,
        torch.zeros_like(ids),
        lengths,
        first + torch.arange(rows),
        zeros,
        zeros[:, None],
        zeros[:, None],
    )


def rate(terms: tuple[Term, ...], rows: int, seq: int) -> float:
    """Tokens a second, best of eight passes over 20 batches."""
    predictions = Mlm().predictions(seq)
    stage = SimpleNamespace(objective=terms, padded=True, predictions=lambda: predictions)
    tables, batches = vocabulary(), [batch(rows, seq, i * rows) for i in range(20)]
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        for inputs in batches:
            corrupt(stage, inputs, tables, 0)  # type: ignore[arg-type]
        best = min(best, time.perf_counter() - start)
    return len(batches) * rows * seq / best


def main() -> None:
    """Print one line for each unit and shape."""
    torch.set_num_threads(1)
    units: tuple[Unit, ...] = (TokenUnit(), WordUnit(), NgramUnit(), SpanUnit())
    for unit in units:
        for rows, seq in SHAPES:
            figure = rate((Term(objective=Mlm(unit=unit)),), rows, seq)
            print(f"{unit.kind:6} {rows:4} x {seq:4}  {figure / 1e6:6.1f} M tokens/s")


if __name__ == "__main__":
    main()
