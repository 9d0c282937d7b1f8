"""The memory of a run between two steps: state like the weights, of this process's rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bertc.distributed.process_group import Ranks
from bertc.ir.program.resolved import Stage
from bertc.nn import Memory, Model
from bertc.nn.memory import nothing

STATES, FILLED = "states", "filled"
Shapes = dict[str, tuple[int, ...]]


@dataclass
class Remembered:
    """What the rows of the next batch go on from; None where a stage has no memory."""

    memory: Memory | None = None

    def gathered(self, stage: Stage, ranks: Ranks) -> dict[str, Tensor]:
        """That of all rows of the batch in main memory, in fp32, in the first process.

        Every process takes part.
        """
        assert self.memory is not None, "asked only where there is one"
        rows = [ranks.world.rows(rank, stage.batch) for rank in range(ranks.world.size)]
        states = ranks.gather(self.memory.states.float().cpu(), 1, rows)
        return {STATES: states, FILLED: self.memory.filled.float().cpu()} if ranks.first else {}


def beginning(model: Model, stage: Stage, batch: int, device: torch.device) -> Memory | None:
    """The memory of ``batch`` rows that have read nothing; None where a stage has none."""
    if not stage.memory:
        return None
    encoder = stage.encoder
    layers, hidden = encoder.depth, encoder.hidden
    dtype = model.compute_dtype
    memory = nothing(layers, batch, stage.memory, hidden, dtype, device, stage.parts[0])
    return memory._replace(same_length=model.same_length)


def joined(parts: list[Memory | None]) -> Memory | None:
    """The memory of rows side by side."""
    memories = [part for part in parts if part is not None]
    if not memories:
        return None
    return memories[0]._replace(states=torch.cat([part.states for part in memories], dim=1))


def shapes(stage: Stage) -> Shapes:
    """Of the tensors that ``gathered`` gives."""
    encoder = stage.encoder
    return {STATES: (encoder.depth, stage.batch, stage.memory, encoder.hidden), FILLED: ()}


def taken_up(
    tensors: dict[str, Tensor],
    stage: Stage,
    rows: slice,
    dtype: torch.dtype,
    device: torch.device,
) -> Remembered:
    """What ``gathered`` gave, for a process with these rows."""
    states = tensors[STATES][:, rows].to(device, dtype)
    return Remembered(Memory(states, tensors[FILLED].long().to(device), stage.parts[0]))
