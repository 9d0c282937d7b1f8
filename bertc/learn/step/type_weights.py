"""Weights of token types by how often they are predicted right, for ``unit=adaptive``.

Axes: v token ids; a pair of counts of each: predictions, and right ones.
"""

from typing import NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor

from bertc.ir.program.reading import adaptive_unit, part_over
from bertc.ir.program.stage import Stage
from bertc.learn.objectives.targets import MicroBatch, Predictions

LEAST = 0.005
"""The least chance of a type to be masked, before those of a row are scaled (train_mask.py)."""


class TypeWeights(NamedTuple):
    """Weights of mean 1, and the counts of predictions since they last changed."""

    weights: Float[Tensor, "v"]
    counts: Float[Tensor, "2 v"]

    @classmethod
    def equal(cls, size: int, device: torch.device | None = None) -> Self:
        """The weights in the beginning."""
        return cls(torch.ones(size, device=device), torch.zeros(2, size, device=device))

    def after(self, counts: Float[Tensor, "2 v"], stage: Stage, step: int) -> Self:
        """The weights after the run's step ``step``, by the counts of all processes in it."""
        total, unit = self.counts + counts, adaptive_unit(stage)
        assert unit is not None, "the stage has adaptive masks"
        if (step + 1) % unit.every:
            return self._replace(counts=total)
        predicted, right = total.double()
        wrong = 1 - (right + 0.5) / (predicted + 1)
        weights = unit.smooth * self.weights.double() + (1 - unit.smooth) * wrong
        over = part_over(stage, stage.first_batch + step - stage.first_step)
        share = stage.masked_terms()[0].share_at(over)
        weights = weights.clamp(min=LEAST / share)
        return self._replace(
            weights=(weights / weights.mean()).float(), counts=torch.zeros_like(total)
        )


def with_counts(parts: list[MicroBatch], stage: Stage) -> list[MicroBatch]:
    """Micro-batches whose losses add to counts (2, v) that they share, for adaptive masks."""
    if not parts or adaptive_unit(stage) is None:
        return parts
    counts = torch.zeros(2, stage.encoder.vocab_size, device=parts[0].originals.device)
    counting = []
    for part in parts:
        masked = {n: t for n, t in part.terms.items() if isinstance(t, Predictions)}
        terms = {name: targets._replace(counts=counts) for name, targets in masked.items()}
        counting.append(part._replace(terms=part.terms | terms))
    return counting


def counts_of(parts: list[MicroBatch]) -> Float[Tensor, "2 v"] | None:
    """The counts that the losses of micro-batches added to; None without masked rows."""
    targets = (targets for part in parts for targets in part.terms.values())
    return next((of.counts for of in targets if isinstance(of, Predictions)), None)
