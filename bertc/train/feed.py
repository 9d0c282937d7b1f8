"""From the data's rows to tensors, one batch ahead of the step that reads it."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, Self

import torch
from torch import Tensor

from bertc.data import RawBatch
from bertc.objectives import Inputs


class Batches(Protocol):
    """The batches of a stage by number: a corpus' own, or random ones."""

    def train(self, step: int) -> RawBatch:
        """The batch of a step; any step costs the same."""


def to_inputs(batch: RawBatch, device: torch.device) -> Inputs:
    """The rows of a batch as tensors on ``device``."""
    return _on_device(_host_inputs(batch, pinned=False), device)


def split(inputs: Inputs, rows: int) -> list[Inputs]:
    """The batch in parts of ``rows`` examples."""
    return [Inputs(*parts) for parts in zip(*(torch.split(t, rows) for t in inputs), strict=True)]


def _host_inputs(batch: RawBatch, pinned: bool) -> Inputs:
    def tensor(array: object) -> Tensor:
        wide = torch.as_tensor(array).long()
        return wide.pin_memory() if pinned else wide

    return Inputs(
        token_ids=tensor(batch.token_ids),
        segment_ids=tensor(batch.segment_ids),
        lengths=tensor(batch.lengths),
        example_ids=tensor(batch.example_ids),
        copies=tensor(batch.copies),
        starts=tensor(batch.starts),
        pair_labels=tensor(batch.pair_labels),
    )


def _on_device(inputs: Inputs, device: torch.device) -> Inputs:
    # Pinned memory is copied while the device works; nothing waits here.
    return Inputs(*(tensor.to(device, non_blocking=True) for tensor in inputs))


class Feed:
    """The batches of a stage in order, each fetched while the one before is being used.

    Batch k is a function of (seed, k), so starting anywhere costs the same.
    """

    def __init__(self, data: Batches, first: int, end: int, device: torch.device) -> None:
        self._data, self._next, self._end, self._device = data, first, end, device
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._waiting: Future[Inputs] | None = None

    def __enter__(self) -> Self:
        self._order()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def take(self) -> Inputs:
        """The next batch, on the device."""
        assert self._waiting is not None, "a stage takes as many batches as it has steps"
        inputs = self._waiting.result()
        self._order()
        return _on_device(inputs, self._device)

    def _order(self) -> None:
        self._waiting = None
        if self._next < self._end:
            self._waiting = self._executor.submit(self._fetch, self._next)
            self._next += 1

    def _fetch(self, step: int) -> Inputs:
        return _host_inputs(self._data.train(step), pinned=self._device.type == "cuda")
