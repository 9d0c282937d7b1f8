"""Batches of a stage that learns tasks, as a function of the seed and the step alone."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertc.tasks.examples.task import TaskBatch, TaskSet, cut, gather, shared
from bertc.text.batches.order import mixed, permute
from bertc.text.vocab.vocabulary import Vocabulary


@dataclass(eq=False)
class TaskData:
    """Batches of one task each, drawn by (its share of the examples)^smoothing."""

    vocabulary: Vocabulary
    seed: int
    batch: int
    seq: int
    sets: tuple[TaskSet, ...]
    smoothing: float
    lost: int = 0

    @property
    def examples(self) -> int:
        """The number of examples of one pass."""
        return sum(task_set.units for task_set in self.sets)

    @property
    def tokens(self) -> int:
        """The number of tokens of one pass."""
        return sum(int(task_set.train.begins[-1]) for task_set in self.sets)

    @property
    def row_length(self) -> int:
        """The mean length of a row in tokens, over the batches drawn."""
        means = [task_set.train.lengths.mean() for task_set in self.sets]
        shares = np.array([task_set.units for task_set in self.sets]) ** self.smoothing
        return math.ceil(float(np.average(means, weights=shares)))

    def train(self, step: int, rows: slice | None = None, at_once: int = 0) -> list[TaskBatch]:
        """The batch of a step, or ``rows`` of it, in parts of ``at_once`` rows by length."""
        task_set, units = self.drawn(step, rows)
        parts = cut(task_set.train.lengths, units, task_set.rows_an_example, at_once or self.batch)
        lay_out, pad = shared if task_set.packs else gather, self.vocabulary.pad
        return [lay_out(task_set.task, task_set.train, part, pad) for part in parts]

    def drawn(self, step: int, rows: slice | None = None) -> tuple[TaskSet, NDArray[np.int64]]:
        """The task of a step, and its units: all of them, or ``rows``."""
        number, nth = self._task_of(step)
        task_set = self.sets[number]
        positions = np.arange(nth * self.batch, (nth + 1) * self.batch, dtype=np.int64)
        epochs, within = np.divmod(positions[rows or slice(None)], task_set.units)
        units = within.copy()
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            address = ("order", task_set.task.title, int(epoch))
            units[in_epoch] = permute(within[in_epoch], task_set.units, self.seed, *address)
        return task_set, units

    def _task_of(self, step: int) -> tuple[int, int]:
        if len(self.sets) == 1:
            return 0, step
        sizes = np.array([task_set.units for task_set in self.sets], dtype=np.float64)
        shares = sizes**self.smoothing
        shares *= sizes.sum() / shares.sum() / self.batch
        quotas = [max(1, round(share)) for share in shares]
        chosen, nth = mixed(np.array([step]), quotas, self.seed, "tasks")
        return int(chosen[0]), int(nth[0])
