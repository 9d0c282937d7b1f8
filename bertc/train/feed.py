"""From the data's rows to what a step reads, ahead of the step that reads it."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from bertc.data import RawBatch
from bertc.ir.resolved import Stage
from bertc.objectives import Columns, Inputs, Tables, corrupt, mask_key

Parts = TypeVar("Parts", bound=tuple[Any, ...])


class Batch(NamedTuple):
    """What one step reads."""

    inputs: Inputs | None  # None of a task, whose rows are not made of text
    columns: list[Columns]  # of each micro-batch


class Batches(Protocol):
    """The batches of a stage by number: a corpus' own, or random ones."""

    batch: int
    seq: int

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step, of several from there on, or some rows of each."""


def to_inputs(batch: RawBatch, device: torch.device) -> Inputs:
    """The rows of a batch as tensors on ``device``."""
    return _on_device(_host_inputs(batch, pinned=False), device)


def tokens_at_once(device: torch.device) -> int:
    """Tokens to corrupt together, in padded rows.

    On a CPU what its caches hold, else what keeps a device busy for longer than it takes to ask.
    """
    return 1 << 15 if device.type == "cpu" else 1 << 18


def split(parts: Parts, rows: int) -> list[Parts]:
    """The batch in parts of ``rows`` examples; what is None is None in each."""
    length = _length(parts)
    if length <= rows:
        return [parts]
    nothing = [None] * -(-length // rows)
    pieces = (
        nothing if p is None else torch.split(p, rows) if isinstance(p, Tensor) else split(p, rows)
        for p in parts
    )
    return [type(parts)(*own) for own in zip(*pieces, strict=True)]


def _length(parts: tuple[Any, ...]) -> int:
    """Examples in a batch, whose first part is never None."""
    return len(parts[0]) if isinstance(parts[0], Tensor) else _length(parts[0])


Corruption = Callable[[Inputs, int], list[list[Columns]]]
"""Batches of so many rows, one after another, to the columns of the micro-batches of each."""


def corruption(stage: Stage, tables: Tables, seed: int, microbatch: int) -> Corruption:
    """What makes of one batch or several the columns that their steps read."""

    def columns(inputs: Inputs, batch: int) -> list[list[Columns]]:
        unit = batch if batch % microbatch else microbatch
        fitting = tokens_at_once(inputs.token_ids.device) // (stage.seq * unit)
        parts = [
            part
            for rows in split(inputs, max(1, fitting) * unit)
            for whole in split(corrupt(stage, rows, tables, mask_key(seed)), unit)
            for part in split(whole, microbatch)
        ]
        each = -(-batch // microbatch)
        return [parts[first : first + each] for first in range(0, len(parts), each)]

    return columns


def _host_inputs(batch: RawBatch, pinned: bool) -> Inputs:
    tensors = (torch.as_tensor(getattr(batch, name)) for name in Inputs._fields)
    return Inputs(*(tensor.pin_memory() if pinned else tensor for tensor in tensors))


def _on_device(inputs: Inputs, device: torch.device) -> Inputs:
    # Pinned memory is copied while the device works; nothing waits here. The copies are narrow:
    # 5 bytes a token instead of 16.
    return Inputs(*(tensor.to(device, non_blocking=True).long() for tensor in inputs))


class Feed:
    """The batches of a stage in order, fetched while those before are being used.

    Small batches are fetched, copied and corrupted several at a time: a call costs the same for few
    rows as for many, and a mask is the same whatever it is made beside. Batch k is a function of
    (seed, k), so starting anywhere costs the same. ``rows`` are those that this process takes of
    each, if not all.
    """

    def __init__(
        self,
        data: Batches,
        first: int,
        end: int,
        device: torch.device,
        corrupt: Corruption,
        rows: slice | None = None,
    ) -> None:
        self._data, self._next, self._end, self._device = data, first, end, device
        self._corrupt, self._rows = corrupt, rows
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._waiting: Future[Inputs] | None = None
        self._ready: deque[Batch] = deque()

    def __enter__(self) -> Self:
        self._order()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def take(self) -> Batch:
        """The next batch, on the device."""
        if not self._ready:
            assert self._waiting is not None, "a stage takes as many batches as it has steps"
            inputs = _on_device(self._waiting.result(), self._device)
            self._order()
            rows = len(range(self._data.batch)[self._rows or slice(None)])
            columns = self._corrupt(inputs, rows)
            self._ready.extend(map(Batch, split(inputs, rows), columns))
        return self._ready.popleft()

    def _order(self) -> None:
        data, first = self._data, self._next
        fitting = tokens_at_once(self._device) // (data.batch * data.seq)
        self._next = min(first + max(1, fitting), self._end)
        self._waiting = None
        if first < self._end:
            self._waiting = self._executor.submit(self._fetch, first, self._next - first)

    def _fetch(self, first: int, steps: int) -> Inputs:
        batch = self._data.train(first, self._rows, steps)
        return _host_inputs(batch, pinned=self._device.type == "cuda")
