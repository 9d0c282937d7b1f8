"""Memory of a stream between two steps: state of this process's rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bertc.ir.program.reading import adaptive_unit
from bertc.ir.program.stage import Stage
from bertc.learn.step.type_weights import TypeWeights
from bertc.machine.process_group import ProcessGroup
from bertc.model import Memory, Model

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
    if not memories:
        return None
    return memories[0]._replace(states=torch.cat([part.states for part in memories], dim=1))


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
