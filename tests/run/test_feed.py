"""Batches fetched and corrupted together are those made one by one."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from bertc.data.batches.batch import RawBatch, empty_batch
from bertc.data.batches.stage import StageData
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import VocabTensors
from bertc.learn.step import feed, micro_batches
from bertc.learn.step.feed import Batch, Feed, to_inputs
from bertc.learn.step.micro_batches import corruption, split

BATCH, SEQ, STEPS = 4, 24, 11
CPU = torch.device("cpu")


class Text:
    """Random rows, a function of the step alone."""

    batch, seq = BATCH, SEQ

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        batch = empty_batch(BATCH * steps, SEQ, 1, 0)
        for nth in range(steps):
            ids = np.random.default_rng(step + nth).integers(5, 100, (BATCH, SEQ))
            batch.token_ids[nth * BATCH : (nth + 1) * BATCH] = ids
        batch.lengths[:] = SEQ
        batch.example_ids[:] = np.arange(BATCH * steps) + step * BATCH
        own = np.arange(BATCH * steps).reshape(steps, BATCH)[:, rows or slice(None)].reshape(-1)
        return RawBatch(*(part[own] for part in vars(batch).values()))


def vocab() -> VocabTensors:
    none = torch.zeros(100, dtype=torch.bool)
    return VocabTensors(100, 0, 2, 3, 4, ~none, none, torch.linspace(0, 1, 100), torch.ones(100))


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):  # what each term asks, by its name
        value = [each for _, each in sorted(value.items())]
    return [tensor for part in value or () for tensor in flat(part)]


@pytest.mark.parametrize("batches_at_once", [1, 3, 100])
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rows", [None, slice(0, 2), slice(1, 4)])
def test_batches_are_the_same_however_many_are_made_at_once(
    tiny: Callable[..., Resolved],
    batches_at_once: int,
    first: int,
    rows: slice | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = tiny(batch=BATCH).stages[0]
    corrupt = corruption(stage, vocab(), 1, 2)
    alone = [
        Batch(inputs, [corrupt(part, len(part.lengths))[0][0] for part in split(inputs, 2)])
        for inputs in (to_inputs(Text().train(step, rows), CPU) for step in range(first, STEPS))
    ]

    def at_once(tokens: int, _: str) -> int:
        return max(1, batches_at_once * BATCH * SEQ // tokens)

    for module in (feed, micro_batches):
        monkeypatch.setattr(module, "batches_at_once", at_once)
    data = cast(StageData, Text())
    with Feed(data, first, STEPS, CPU, corrupt, rows) as batches:
        for expected in alone:
            found = batches.take()
            assert len(found.micro_batches) == len(expected.micro_batches)
            for a, b in zip(flat(found), flat(expected), strict=True):
                assert torch.equal(a, b)
