"""Memory between two steps: of a stream, for this process's rows, and of what adaptive masks need.

Axes: v token ids; a pair of counts of each: predictions, and right ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor

from bertc.ir.program import Stage
from bertc.ir.program.reading import adaptive_unit, part_over
from bertc.learn.objectives.targets import MicroBatch, Predictions
from bertc.machine.process_group import ProcessGroup
from bertc.model import Memory, Model

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
        weights = (weights / weights.mean()).float()
        return self._replace(weights=weights, counts=torch.zeros_like(total))


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


MEMORY = "memory.safetensors"
"""The file of checkpoints with what the rows of the next batch go on from, where there is that."""
STATES, FILLED, TYPE_WEIGHTS, TYPE_COUNTS = "states", "filled", "weights", "counts"
Shapes = dict[str, tuple[int, ...]]


def remembers(stage: Stage, step: int) -> bool:
    """True if the rows of the run's step ``step`` have a memory of earlier steps of the stage."""
    return bool(stage.memory) and stage.first_step < step < stage.first_step + stage.steps


@dataclass
class Remembered:
    """The memory that the next batch continues from, and weights of token types of adaptive masks.

    None if the stage has none. ``following`` are the weights as the next batch has them, before the
    present step is over.
    """

    memory: Memory | None = None
    types: TypeWeights | None = None
    following: TypeWeights | None = None

    def enter(self, stage: Stage, step: int) -> None:
        """Forget the memory of another stage."""
        if not remembers(stage, step):
            self.memory = None

    def begin_types(self, stage: Stage, device: torch.device) -> None:
        """Give equal weights to token types, if the stage needs some and there are none."""
        if adaptive_unit(stage) and self.types is None:
            self.types = TypeWeights.equal(stage.encoder.vocab_size, device)
        self.following = self.types

    def count_types(
        self, micro_batches: list[MicroBatch], stage: Stage, step: int, ranks: ProcessGroup
    ) -> None:
        """Make the weights of token types after this step, which the next batch is to have."""
        if self.types is None or not adaptive_unit(stage):
            return
        targets = (targets for part in micro_batches for targets in part.terms.values())
        counted = [t.counts for t in targets if isinstance(t, Predictions) and t.counts is not None]
        counts = counted[0] if counted else torch.zeros_like(self.types.counts)
        ranks.add(counts)
        self.following = self.types.after(counts, stage, step)

    def of_parts(
        self, micro_batches: list[MicroBatch], model: Model, stage: Stage, ranks: ProcessGroup
    ) -> list[Memory | None]:
        """The memory of each micro-batch's rows."""
        first, memories, memory = 0, list[Memory | None](), self.memory
        if memory is None:
            device, rows = micro_batches[0].originals.device, ranks.rows(stage.batch)
            memory = beginning(model, stage, rows.stop - rows.start, device)
        for part in micro_batches:
            rows = slice(first, first + len(part.originals))
            memories.append(memory and memory.rows(rows))
            first = rows.stop
        return memories

    def gathered(
        self, stage: Stage, step: int, ranks: ProcessGroup
    ) -> dict[str, Mapping[str, Tensor]]:
        """The file that step ``step`` needs, in fp32 in main memory, in the first process."""
        tensors = dict[str, Tensor]()
        if remembers(stage, step):
            assert self.memory is not None, "the stage has a memory"
            rows = [ranks.world.rows(rank, stage.batch) for rank in range(ranks.world.size)]
            tensors[STATES] = ranks.gather(self.memory.states.float().cpu(), 1, rows)
            tensors[FILLED] = self.memory.filled.float().cpu()
        if adaptive_unit(stage):
            types = self.types or TypeWeights.equal(stage.encoder.vocab_size)
            tensors |= {TYPE_WEIGHTS: types.weights.cpu(), TYPE_COUNTS: types.counts.cpu()}
        return {MEMORY: tensors if ranks.is_main else {}}


def beginning(model: Model, stage: Stage, batch: int, device: torch.device) -> Memory | None:
    """An empty memory of ``batch`` rows; None if the stage has none."""
    if not stage.memory:
        return None
    shape = (stage.encoder.depth, batch, stage.memory, stage.encoder.hidden)
    states = torch.zeros(shape, dtype=model.compute_dtype, device=device)
    filled = torch.zeros((), dtype=torch.long, device=device)
    return Memory(states, filled, stage.format.parts(stage.seq)[0], model.same_length)


def joined(parts: list[Memory | None]) -> Memory | None:
    """Concatenate the memories of several groups of rows."""
    memories = [part for part in parts if part is not None]
    states = [part.states for part in memories]
    return memories[0]._replace(states=torch.cat(states, dim=1)) if memories else None


def files(stage: Stage, step: int) -> dict[str, Shapes]:
    """The file of ``gathered``, if there is one, with the shapes of its tensors."""
    encoder, of_all = stage.encoder, Shapes()
    if remembers(stage, step):
        of_all[STATES] = encoder.depth, stage.batch, stage.memory, encoder.hidden
        of_all[FILLED] = ()
    if adaptive_unit(stage):
        of_all |= {TYPE_WEIGHTS: (encoder.vocab_size,), TYPE_COUNTS: (2, encoder.vocab_size)}
    return {MEMORY: of_all} if of_all else {}


def take_up_memory(
    files_there: Mapping[str, dict[str, Tensor]],
    stage: Stage,
    step: int,
    ranks: ProcessGroup,
    dtype: torch.dtype,
    device: torch.device,
) -> Remembered:
    """The memory of this process's rows after ``step`` steps, from files of the first process."""
    remembered = Remembered()
    for file, shapes in files(stage, step).items() if step else ():
        tensors = files_there.get(file) or {n: torch.zeros(shape) for n, shape in shapes.items()}
        ranks.share_tensors(tensors)
        if STATES in tensors:
            states = tensors[STATES][:, ranks.rows(stage.batch)].to(device, dtype)
            filled = tensors[FILLED].long().to(device)
            remembered.memory = Memory(states, filled, stage.format.parts(stage.seq)[0])
        if TYPE_WEIGHTS in tensors:
            weights, counts = (tensors[name].to(device) for name in (TYPE_WEIGHTS, TYPE_COUNTS))
            remembered.types = TypeWeights(weights, counts)
    return remembered
