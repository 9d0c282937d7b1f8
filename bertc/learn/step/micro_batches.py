"""A batch of text as micro-batches: rows of one direction, with masks and targets."""

from functools import cache
from itertools import chain, repeat
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from bertc.cost.planning.plan import batches_at_once
from bertc.ir.methods.batches import falls
from bertc.ir.program import Stage, reading
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, corrupt, mask_key
from bertc.learn.step.memory import Remembered, with_counts

Parts = TypeVar("Parts")


def split(parts: Parts, rows: int) -> list[Parts]:
    """Cut a batch into parts of ``rows`` examples; None stays None."""
    leaves, structure = tree_flatten(parts)
    if len(next(leaf for leaf in leaves if isinstance(leaf, Tensor))) <= rows:
        return [parts]
    cut = (torch.split(leaf, rows) if isinstance(leaf, Tensor) else repeat(leaf) for leaf in leaves)
    return [tree_unflatten(pieces, structure) for pieces in zip(*cut, strict=False)]


class Corruption(Protocol):
    """From inputs and a number of rows per batch to the micro-batches of each batch."""

    def __call__(self, inputs: Inputs, batch: int, number: int = 0) -> list[list[MicroBatch]]:
        """``number`` is that of the first batch, counted from the beginning of the text."""


def corruption(
    stage: Stage,
    vocab: VocabTensors,
    seed: int,
    microbatch: int,
    first: int = 0,
    remembered: Remembered | None = None,
) -> Corruption:
    """The function that corrupts one batch or several, whose rows are counted from ``first``.

    A micro-batch has rows of one direction. Adaptive masks have the weights that ``remembered``
    holds for the following step.
    """
    stages = reading.split_rows(stage)
    if len(stages) == 1:
        return _in_one_direction(stage, vocab, seed, microbatch, remembered)

    @cache
    def cuts(rows: int, batch: int) -> list[tuple[Corruption, Tensor, int]]:
        """The corruption of each direction, its rows in all batches, and their number in one."""
        corruptions, begins = [], range(-first, rows - first, batch)
        of_directions = reading.rows_by_direction(stage, range(first, first + batch))
        for direction, places in zip(stages, of_directions, strict=True):
            if places:
                size = -(-len(places) // -(-len(places) // microbatch))
                cut = _in_one_direction(direction, vocab, seed, size, remembered)
                chosen = torch.tensor([begin + place for begin in begins for place in places])
                corruptions.append((cut, chosen.to(vocab.special.device), len(places)))
        return corruptions

    def micro_batches(inputs: Inputs, batch: int, number: int = 0) -> list[list[MicroBatch]]:
        of_directions = (
            cut(Inputs(*(tensor[chosen] for tensor in inputs)), rows, number)
            for cut, chosen, rows in cuts(len(inputs.lengths), batch)
        )
        return [[*chain(*of_batch)] for of_batch in zip(*of_directions, strict=True)]

    return micro_batches


def _in_one_direction(
    stage: Stage, vocab: VocabTensors, seed: int, microbatch: int, remembered: Remembered | None
) -> Corruption:
    def micro_batches(inputs: Inputs, batch: int, number: int = 0) -> list[list[MicroBatch]]:
        unit = batch if falls(stage.objective) or batch % microbatch else microbatch
        fitting = batches_at_once(stage.seq * unit, inputs.token_ids.device.type)
        known = vocab
        if reading.adaptive_unit(stage) and remembered and remembered.following:
            known = vocab._replace(weights=remembered.following.weights)
        parts: list[MicroBatch] = []
        at_once = unit if falls(stage.objective) else fitting * unit
        for index, rows in enumerate(split(inputs, at_once)):
            # Where the share of masked tokens falls, these are the rows of one batch.
            over = reading.part_over(stage, number + index) if falls(stage.objective) else 0.0
            corrupted = corrupt(stage, rows, known, mask_key(seed), over)
            cut = split(corrupted, unit)
            if unit > microbatch:
                cut = [part for rows_of_unit in cut for part in split(rows_of_unit, microbatch)]
            # A compiled step is recompiled if two of its inputs are one tensor; cut ones differ.
            parts += cut if len(cut) > 1 else [tree_map_only(Tensor, Tensor.detach, corrupted)]
        count = -(-batch // microbatch)
        return [with_counts(parts[n : n + count], stage) for n in range(0, len(parts), count)]

    return micro_batches
