"""Prefetching of task batches."""

from functools import partial

import torch
from torch import Tensor

from bertc.cost.planning.world import World
from bertc.data.examples.task import TaskBatch
from bertc.data.examples.task_data import TaskData
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import MicroBatch, TaskTargets
from bertc.learn.step.feed import Batch, Taken
from bertc.machine.exact import WITHOUT_FP64
from bertc.model import EncoderInputs

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


def to_micro_batch(
    batch: TaskBatch, device: torch.device, stage: Stage | None = None
) -> MicroBatch:
    """A batch of a task on ``device``: encoder inputs and labels, also for the stage's teachers."""
    pinned = device.type == "cuda"

    def moved(array: object, dtype: torch.dtype) -> Tensor:
        tensor = torch.as_tensor(array)
        if device.type in WITHOUT_FP64:
            tensor = tensor.to(dtype)
        host_tensor = tensor.pin_memory() if pinned else tensor
        return host_tensor.to(device, non_blocking=True).to(dtype)

    token_ids_bs = moved(batch.token_ids, torch.long)
    examples_bs = moved(batch.examples, torch.long)
    positions_bk = moved(batch.positions, torch.long)
    reading = EncoderInputs(
        token_ids=token_ids_bs,
        segment_ids=moved(batch.segment_ids, torch.long),
        attention_mask=None if batch.shared else examples_bs > 0,
        sequence_ids=examples_bs if batch.shared else None,
        starts=moved(batch.starts, torch.long) if batch.shared else None,
        output_positions=None if batch.passage.size or batch.reads_all else positions_bk,
    )
    answers = TaskTargets(
        positions_bk,
        moved(batch.targets, torch.float32),
        moved(batch.weights, torch.float32),
        moved(batch.passage, torch.bool),
        examples_bs,
    )
    terms = [t.objective.teaching for t in stage.objective] if stage else []
    taught_titles = [term.title for term in terms if term and term.of_task in ("", batch.task)]
    if taught_titles and stage and stage.networks()[-1].num_outputs is None:
        reading = reading._replace(output_positions=None)
    frozen = [network for network in stage.networks() if not network.learned] if stage else []
    return MicroBatch(
        reading,
        token_ids_bs,
        dict.fromkeys((batch.task, *taught_titles), answers),
        frozen_positions=positions_bk if any(n.num_outputs for n in frozen) else None,
    )


class TaskFeed(Taken[list[TaskBatch]]):
    """Batches of a stage of tasks in order, prepared during the steps before."""

    def __init__(
        self,
        data: TaskData,
        first: int,
        end: int,
        device: torch.device,
        at_once: int,
        rows: slice | None = None,
        stage: Stage | None = None,
    ) -> None:
        self._stage = stage
        super().__init__(partial(data.train, step, rows, at_once) for step in range(first, end))
        self._device = device

    def _batches(self, prepared: list[TaskBatch]) -> list[Batch]:
        return [Batch(None, [to_micro_batch(part, self._device, self._stage) for part in prepared])]
