"""Memory of a stream between two steps: state of this process's rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bertc.ir.program.stage import Stage
from bertc.machine.process_group import ProcessGroup
from bertc.model import Memory, Model

STATES, FILLED = "states", "filled"
Shapes = dict[str, tuple[int, ...]]


@dataclass
class Remembered:
    """The memory that the next batch continues from; None if the stage has none."""

    memory: Memory | None = None

    def gathered(self, stage: Stage, ranks: ProcessGroup) -> dict[str, Tensor]:
        """Memory of all rows of the batch, in fp32 in main memory, in the first process."""
        assert self.memory is not None, "the stage has a memory"
        rows = [ranks.world.rows(rank, stage.batch) for rank in range(ranks.world.size)]
        states = ranks.gather(self.memory.states.float().cpu(), 1, rows)
        return {STATES: states, FILLED: self.memory.filled.float().cpu()} if ranks.is_main else {}


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
    if not memories:
        return None
    return memories[0]._replace(states=torch.cat([part.states for part in memories], dim=1))


def shapes(stage: Stage) -> Shapes:
    """Shapes of the tensors of ``gathered``."""
    encoder = stage.encoder
    return {STATES: (encoder.depth, stage.batch, stage.memory, encoder.hidden), FILLED: ()}


def taken_up(
    tensors: dict[str, Tensor], stage: Stage, rows: slice, dtype: torch.dtype, device: torch.device
) -> Remembered:
    """Restore this process's rows from the tensors of ``gathered``."""
    states = tensors[STATES][:, rows].to(device, dtype)
    return Remembered(
        Memory(states, tensors[FILLED].long().to(device), stage.format.parts(stage.seq)[0])
    )
