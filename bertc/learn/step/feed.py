"""Prefetching of batches: from the data's rows to the inputs of a step."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from bertc.cost.planning.plan import batches_at_once
from bertc.data.batches.batch import RawBatch
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, corrupt, mask_key
from bertc.machine.exact import WITHOUT_FP64, preparing
from bertc.model.parts import profiled_as

Parts = TypeVar("Parts")
Made = TypeVar("Made")


class Batch(NamedTuple):
    """The inputs of one step."""

    inputs: Inputs | None  # None for tasks, whose rows are not made of text
    micro_batches: list[MicroBatch]


class Batches(Protocol):
    """Batches of a stage by number: a corpus's, or random ones."""

    batch: int
    seq: int

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step, or of several steps, or some rows of each."""


def to_inputs(batch: RawBatch, device: torch.device) -> Inputs:
    """The rows of a batch as tensors on ``device``."""
    return _on_device(_host_inputs(batch, pinned=False), device)


def split(parts: Parts, rows: int) -> list[Parts]:
    """Cut a batch into parts of ``rows`` examples; None stays None."""
    leaves, structure = tree_flatten(parts)
    if len(next(leaf for leaf in leaves if isinstance(leaf, Tensor))) <= rows:
        return [parts]
    cut = (torch.split(leaf, rows) if isinstance(leaf, Tensor) else repeat(leaf) for leaf in leaves)
    return [tree_unflatten(pieces, structure) for pieces in zip(*cut, strict=False)]


Corruption = Callable[[Inputs, int], list[list[MicroBatch]]]
"""From inputs and a number of rows per batch to the micro-batches of each batch."""


def on_device(parts: Parts, device: torch.device) -> Parts:
    """Move tensors to a device; fp64 becomes fp32 on one that lacks it."""
    if device.type not in WITHOUT_FP64:
        return parts

    def moved(tensor: Tensor) -> Tensor:
        return (tensor.float() if tensor.dtype == torch.float64 else tensor).to(device)

    on_it: Parts = tree_map_only(Tensor, moved, parts)
    return on_it


def corruption(
    stage: Stage, vocab: VocabTensors, seed: int, microbatch: int, device: torch.device
) -> Corruption:
    """The function that corrupts one batch or several, with results on ``device``."""

    def micro_batches(inputs: Inputs, batch: int) -> list[list[MicroBatch]]:
        if device.type in WITHOUT_FP64:
            inputs = Inputs(*(tensor.to(preparing(device)) for tensor in inputs))
        unit = batch if batch % microbatch else microbatch
        fitting = batches_at_once(stage.seq * unit, inputs.token_ids.device.type)
        parts: list[MicroBatch] = []
        for rows in split(inputs, fitting * unit):
            corrupted = on_device(corrupt(stage, rows, vocab, mask_key(seed)), device)
            units = split(corrupted, unit)
            cut = [part for rows_of_unit in units for part in split(rows_of_unit, microbatch)]
            # A compiled step is recompiled if two of its inputs are one tensor; cut ones differ.
            parts += cut if len(cut) > 1 else [tree_map_only(Tensor, Tensor.detach, corrupted)]
        count = -(-batch // microbatch)
        return [parts[first : first + count] for first in range(0, len(parts), count)]

    return micro_batches


def _host_inputs(batch: RawBatch, pinned: bool) -> Inputs:
    tensors = (torch.as_tensor(getattr(batch, name)) for name in Inputs._fields)
    return Inputs(*(tensor.pin_memory() if pinned else tensor for tensor in tensors))


def _on_device(inputs: Inputs, device: torch.device) -> Inputs:
    # Pinned memory is copied asynchronously while the device works. The copies are narrow:
    # 5 bytes a token instead of 16.
    return Inputs(*(tensor.to(device, non_blocking=True).long() for tensor in inputs))


class Taken(ABC, Generic[Made]):
    """The batches of a stage, in order; a thread prepares the next while the last are used."""

    def __init__(self, jobs: Iterator[Callable[[], Made]]) -> None:
        self._jobs = jobs
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._waiting: Future[Made] | None = None
        self._ready: deque[Batch] = deque()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _begin(self) -> None:
        job = next(self._jobs, None)
        self._waiting = self._executor.submit(job) if job else None

    def take(self) -> Batch:
        """The next batch, on the device."""
        self.look_ahead()
        return self._ready.popleft()

    def look_ahead(self) -> None:
        """Prepare the next batch, if there is one, so that ``take`` returns at once."""
        if not self._ready and self._waiting is not None:
            with profiled_as("loader"):
                prepared = self._waiting.result()
                self._begin()
                self._ready.extend(self._batches(prepared))

    @abstractmethod
    def _batches(self, prepared: Made) -> Iterable[Batch]:
        """The batches of one job's result, on the device."""


class Feed(Taken[Inputs]):
    """Batches of a stage in order, prefetched during the steps before.

    Small batches are fetched, copied and corrupted several at a time, because a call takes as long
    for few rows as for many. ``rows`` are this process's rows of each batch, None: all.
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
        at_once = batches_at_once(data.batch * data.seq, device.type)
        pinned = device.type == "cuda"

        def fetch(step: int) -> Inputs:
            return _host_inputs(data.train(step, rows, min(at_once, end - step)), pinned)

        super().__init__(partial(fetch, step) for step in range(first, end, at_once))
        self._device, self._corrupt = preparing(device), corrupt
        self._rows = len(range(data.batch)[rows or slice(None)])

    def _batches(self, prepared: Inputs) -> Iterable[Batch]:
        inputs = _on_device(prepared, self._device)
        micro_batches = self._corrupt(inputs, self._rows)
        return map(Batch, split(inputs, self._rows), micro_batches)
