"""What a run has learned so far and where it stands: all that a checkpoint holds."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from bertc.ir.resolved import Resolved, Stage, model_weights
from bertc.nn import Model, build
from bertc.train import checkpoints
from bertc.train.beginning import Source
from bertc.train.foreach import Moments
from bertc.train.growth import move
from bertc.train.metrics import Sums
from bertc.train.optimizers import zero_moments
from bertc.train.remembered import shapes


@dataclass
class Progress:
    """How far a run is. With the weights and moments, all that resuming needs.

    ``evaluated`` is the last step that was evaluated, ``sums`` what the next line of metrics
    averages, ``metrics_bytes`` how long the file of metrics was.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    evaluated: int = 0
    metrics_bytes: int = 0
    sums: Sums = field(default_factory=Sums)

    @staticmethod
    def of(content: Any) -> "Progress":
        """From a checkpoint's JSON."""
        return Progress(**{**content, "sums": Sums(**content["sums"])})


@dataclass(frozen=True)
class State:
    """The weights, in their module; the optimiser's moments; the progress; the memory, if any."""

    model: Model
    moments: Moments
    progress: Progress
    memory: dict[str, Tensor]


def begin(resolved: Resolved, stage: Stage, source: Source | None = None) -> State:
    """The initial state of a stage's network, in main memory: of the source, or of the seed."""
    model = build(resolved.as_in(stage))
    weights = dict(model.named_parameters())
    if source:
        move(source.places, source.tensors, weights)
    return State(model, zero_moments(weights), Progress(), {})


def restore(checkpoint: checkpoints.Checkpoint, resolved: Resolved) -> State:
    """The state of a verified checkpoint, in main memory.

    Raises:
        DataError: if its tensors are not those of the weight table.
    """
    resolved = resolved.as_in(resolved.trained_at(checkpoint.step))
    table, folder = model_weights(resolved), checkpoint.folder
    weights = checkpoints.load_weights(folder / checkpoints.WEIGHTS, table)
    moments = checkpoints.load_moments(folder / checkpoints.OPTIMIZER, table)
    model = build(resolved, "meta")
    model.load_state_dict(weights, assign=True)
    progress, memory = Progress.of(checkpoint.progress), dict[str, Tensor]()
    stage = resolved.stage_at(progress.step)
    if stage.remembers(progress.step):
        memory = checkpoints.load_memory(folder / checkpoints.MEMORY, shapes(stage))
    return State(model, moments, progress, memory)
