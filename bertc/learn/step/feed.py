"""Batches of text and of tasks, prefetched: from rows and vocabulary of the data to a step."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from bertc.cost.planning.plan import batches_at_once
from bertc.cost.planning.world import World
from bertc.ir.program import Stage
from bertc.learn.objectives import Inputs, MicroBatch, TaskTargets, VocabTensors
from bertc.learn.step.micro_batches import Corruption, split
from bertc.machine.signals import GLANCE_SECONDS
from bertc.model import EncoderInputs, profile_as
from bertc.tasks.examples.task import TaskBatch, TaskData
from bertc.text.batches.batch import RawBatch
from bertc.text.vocab.vocabulary import Vocabulary


class Batch(NamedTuple):
    """The inputs of one step."""

    inputs: Inputs | None  # None for tasks, whose rows are not made of text
    micro_batches: list[MicroBatch]


Prepared = Callable[[], Iterable[Batch]]
"""The batches of some steps, put on the device when it is called."""


class Batches(Protocol):
    """Batches of a stage by number: a corpus's, or random ones."""

    batch: int
    seq: int

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step, or of several steps, or some rows of each."""


def to_inputs(batch: RawBatch, device: torch.device) -> Inputs:
    """The rows of a batch as tensors on ``device``."""
    return _on_device(_host_inputs(batch), device)


def _host_inputs(batch: RawBatch) -> Inputs:
    return Inputs(*(torch.as_tensor(getattr(batch, name)) for name in Inputs._fields))


def _on_device(inputs: Inputs, device: torch.device) -> Inputs:
    # Pinned memory is copied asynchronously while the device works. The copies are narrow:
    # 5 bytes a token instead of 16.
    return Inputs(*(tensor.to(device, non_blocking=True).long() for tensor in inputs))


class Feed:
    """The batches of a stage, in order; a thread prepares the next while the last are used.

    ``check`` may raise while they are waited for; the thread does not keep the process.
    """

    def __init__(
        self, jobs: Iterator[Callable[[], Prepared]], check: Callable[[], None] = lambda: None
    ) -> None:
        self._jobs, self._check = jobs, check
        self._waiting: Future[Prepared] | None = None
        self._ready: deque[Batch] = deque()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        wait(filter(None, [self._waiting]), GLANCE_SECONDS)

    def _begin(self) -> None:
        self._waiting = None
        if job := next(self._jobs, None):
            self._waiting = Future()
            Thread(target=_make, args=(job, self._waiting), daemon=True).start()

    def take(self) -> Batch:
        """The next batch, on the device."""
        self.look_ahead()
        return self._ready.popleft()

    def look_ahead(self) -> None:
        """Prepare the next batch, if there is one, so that ``take`` returns at once."""
        if not self._ready and self._waiting is not None:
            with profile_as("loader"):
                while wait([self._waiting], GLANCE_SECONDS).not_done:
                    self._check()
                prepared = self._waiting.result()
                self._begin()
                self._ready.extend(prepared())


def _make(job: Callable[[], Prepared], future: Future[Prepared]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)


def text_feed(
    data: Batches,
    first: int,
    end: int,
    device: torch.device,
    corrupt: Corruption,
    rows: slice | None = None,
    check: Callable[[], None] = lambda: None,
    one_by_one: bool = False,
) -> Feed:
    """Batches of a stage in order, prefetched during the steps before.

    Small batches are fetched, copied and corrupted several at a time, because a call takes as long
    for few rows as for many. ``rows`` are this process's rows of each batch, None: all. With
    ``one_by_one`` each batch is corrupted after the gradients of the one before.
    """
    at_once = 1 if one_by_one else batches_at_once(data.batch * data.seq, device.type)
    pinned, of_batch = device.type == "cuda", len(range(data.batch)[rows or slice(None)])

    def fetch(step: int) -> Prepared:
        inputs = _host_inputs(data.train(step, rows, min(at_once, end - step)))
        inputs = Inputs(*(tensor.pin_memory() for tensor in inputs)) if pinned else inputs
        return partial(batches, step, inputs)

    def batches(step: int, inputs: Inputs) -> Iterable[Batch]:
        inputs = _on_device(inputs, device)
        return map(Batch, split(inputs, of_batch), corrupt(inputs, of_batch, step))

    return Feed((partial(fetch, step) for step in range(first, end, at_once)), check)


FEWEST_ROWS, ENOUGH_TOKENS = 8, 1792
"""Minimum rows, and target tokens, of a micro-batch on a CPU.

More rows are less alike in length; more tokens leave its caches between parts of a layer, fewer
leave cores idle between those of a step."""


def examples_at_once(data: TaskData, stage: Stage, fitting: int, device: torch.device) -> int:
    """Micro-batch size in examples, at most ``fitting``."""
    if device.type != "cpu" or stage.microbatch or World().reads_twice(stage, 0):
        return fitting
    rows = sum(len(task_set.train.owners) for task_set in data.sets)
    tokens_a_row = max(1, data.tokens // max(1, rows)) * stage.rows_an_example
    few = max(1, FEWEST_ROWS // stage.rows_an_example, ENOUGH_TOKENS // tokens_a_row)
    parts = -(-stage.batch // min(few, fitting))
    return -(-stage.batch // parts)


def to_micro_batch(rows: TaskBatch, device: torch.device, stage: Stage | None = None) -> MicroBatch:
    """A batch of a task on ``device``: encoder inputs and labels, also for the stage's teachers."""
    pinned = device.type == "cuda"

    def moved(array: object, dtype: torch.dtype) -> Tensor:
        tensor = torch.as_tensor(array)
        host_tensor = tensor.pin_memory() if pinned else tensor
        return host_tensor.to(device, non_blocking=True).to(dtype)

    token_ids_bs = moved(rows.token_ids, torch.long)
    examples_bs = moved(rows.examples, torch.long)
    positions_bk = moved(rows.positions, torch.long)
    reading = EncoderInputs(
        token_ids=token_ids_bs,
        segment_ids=moved(rows.segment_ids, torch.long),
        attention_mask=None if rows.shared else examples_bs > 0,
        sequence_ids=examples_bs if rows.shared else None,
        starts=moved(rows.starts, torch.long) if rows.shared else None,
        output_positions=None if rows.passage.size or rows.reads_all else positions_bk,
    )
    answers = TaskTargets(
        positions_bk, moved(rows.targets, torch.float32), moved(rows.weights, torch.float32),
        moved(rows.passage, torch.bool), examples_bs,
    )  # fmt: skip
    terms = [t.objective.teaching for t in stage.objective] if stage else []
    taught_titles = [term.title for term in terms if term and term.of_task in ("", rows.task)]
    if taught_titles and stage and stage.networks()[-1].num_outputs is None:
        reading = reading._replace(output_positions=None)
    frozen = [network for network in stage.networks() if not network.learned] if stage else []
    frozen_bk = positions_bk if any(network.num_outputs for network in frozen) else None
    targets = dict.fromkeys((rows.task, *taught_titles), answers)
    return MicroBatch(reading, token_ids_bs, targets, frozen_positions=frozen_bk)


def task_feed(
    data: TaskData,
    stage: Stage,
    first: int,
    end: int,
    device: torch.device,
    at_once: int,
    rows: slice | None,
) -> Feed:
    """Batches of a stage of tasks in order, prepared during the steps before."""

    def fetch(step: int) -> Prepared:
        parts = data.train(step, rows, at_once)
        return lambda: [Batch(None, [to_micro_batch(part, device, stage) for part in parts])]

    return Feed(partial(fetch, step) for step in range(first, end))


def vocab_tensors(vocabulary: Vocabulary, device: torch.device) -> VocabTensors:
    """Convert a vocabulary to tensors on the device."""
    frequency_v = torch.from_numpy(vocabulary.unigram)
    if not frequency_v.any():  # no text was read: all tokens count as equally frequent
        frequency_v = torch.full_like(frequency_v, 1 / vocabulary.size)
    lowest = frequency_v[frequency_v > 0].min()
    return VocabTensors(
        size=vocabulary.size, pad=vocabulary.pad, cls=vocabulary.cls, sep=vocabulary.sep,
        mask=vocabulary.mask, word_start=torch.from_numpy(vocabulary.word_start).to(device),
        special=torch.from_numpy(vocabulary.special).to(device),
        unigram_cdf=cumulative(frequency_v).to(device),
        frequency=frequency_v.clamp(min=lowest).to(device), token=vocabulary.token,
    )  # fmt: skip


def cumulative(frequency_v: Tensor) -> Tensor:
    """Cumulative distribution of relative frequencies (v,), ending at exactly 1."""
    # In double precision: rare tokens are rarer than the precision of a float.
    cdf_v = frequency_v.double().cumsum(0)
    return cdf_v / cdf_v[-1]
