"""What a run has learned so far and where it stands: all that a checkpoint holds."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from bertc.ir.model import model_weights
from bertc.ir.resolved import Resolved, Stage
from bertc.nn import Model, build
from bertc.train import checkpoints
from bertc.train.beginning import Source
from bertc.train.foreach import Moments
from bertc.train.growth import move
from bertc.train.metrics import Sums
from bertc.train.optimizers import zero_moments
from bertc.train.remembered import shapes


@dataclass
class Best:
    """The best evaluation of a stage so far: at which step, its score, what its line showed.

    ``waited`` evaluations came after it.
    """

    step: int
    score: float
    shown: dict[str, Any]
    waited: int = 0


@dataclass
class Progress:
    """How far a run is. With the weights and moments, all that resuming needs.

    ``evaluated`` is the last step that was evaluated, ``sums`` what the next line of metrics
    averages, ``metrics_bytes`` how long the file of metrics was. ``best`` is there in a stage with
    patience, from its first evaluation to its end.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    evaluated: int = 0
    metrics_bytes: int = 0
    sums: Sums = field(default_factory=Sums)
    best: Best | None = None

    @staticmethod
    def of(content: Any) -> "Progress":
        """From a checkpoint's JSON."""
        best = Best(**content["best"]) if content.get("best") else None
        return Progress(**{**content, "sums": Sums(**content["sums"]), "best": best})


@dataclass(frozen=True)
class State:
    """The weights, in their module; the optimiser's moments; the progress.

    ``memory`` is that of the rows, ``best`` the weights of the best evaluation, if there are any.
    """

    model: Model
    moments: Moments
    progress: Progress
    memory: dict[str, Tensor]
    best: dict[str, Tensor]


def begin(resolved: Resolved, stage: Stage, source: Source | None = None) -> State:
    """The initial state of a stage's network, in main memory: of the source, or of the seed."""
    model = build(resolved.as_in(stage))
    weights = dict(model.named_parameters())
    if source:
        move(source.places, source.tensors, weights)
    return State(model, zero_moments(weights), Progress(), {}, {})


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
    best = checkpoints.load_weights(folder / checkpoints.BEST, table) if progress.best else {}
    return State(model, moments, progress, memory, best)
