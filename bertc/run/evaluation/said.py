"""Scores of batches by a model, and the answers that are read off them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertc.data.examples.task import TaskBatch
from bertc.data.metrics.gold import AnswerValue
from bertc.data.metrics.spans import Decoded

Said = Iterator[tuple[TaskBatch, tuple[NDArray[np.float64], ...]]]
"""Batches and the scores of their rows (``_score_tensors``)."""


@dataclass(frozen=True)
class Answers:
    """An answer to each example.

    ``probabilities`` are of labels or choices, in their order, or of each word's tag; ``spans``
    hold the details of predicted spans, ``similarities`` are cosines of pairs. ``loss`` is the mean
    in nats and ``accuracy`` a fraction of 1; both are 0 if the examples have no answers.
    """

    given: list[AnswerValue]
    probabilities: list[tuple[float, ...]] = field(default_factory=list)
    spans: list[Decoded] = field(default_factory=list)
    similarities: list[float] = field(default_factory=list)
    loss: float = 0.0
    accuracy: float = 0.0
