"""The estimate as a value; its dump is the JSON of ``bertc estimate --json``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.base.diagnostics import UsageError
from bertc.cost.units import duration_text, range_text

Convention = Literal["exact", "electra", "6n"]
"""Rules for counting FLOPs.

``exact``: what bertc executes; a multiply-add is 2, backward is twice forward, table lookups are
nothing, the vocabulary projection works on predicted positions only. ``electra``: the rules of
ELECTRA's published counter. ``6n``: 6 x tokens x the weights that a token meets."""
CONVENTIONS: tuple[Convention, ...] = ("exact", "electra", "6n")


def convention_named(name: str) -> Convention:
    """Parse the name of a convention.

    Raises:
        UsageError: if there is no such convention.
    """
    for convention in CONVENTIONS:
        if convention == name.lower():
            return convention
    raise UsageError(f"unknown convention {name}", help=f"--convention {' or '.join(CONVENTIONS)}")


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Parameters(_Figures):
    """Number of trainable weights; tied and shared tensors count once, in ``applied`` once per use.

    ``encoder`` is embeddings + layers + pooler; ``generator`` is what a generator adds to them;
    ``total`` is both + heads. ``by_part`` sums to ``total``, in which ``frozen`` networks do not
    count.
    """

    encoder: int
    generator: int
    embeddings: int
    layers: int
    pooler: int
    heads: int
    total: int
    applied: int
    frozen: int
    by_part: dict[str, int]


class Flops(_Figures):
    """Floating-point operations in one convention, per mean example and step of all stages.

    ``frozen_per_example`` is what frozen networks take of ``forward_per_example``,
    ``update_per_step`` what matrix products of the optimiser take of ``train_per_step``.
    """

    convention: Convention
    forward_per_example: int
    frozen_per_example: int
    train_per_example: int
    update_per_step: int
    train_per_step: int
    train_total: int


class Memory(_Figures):
    """Bytes on the device; ``peak_bytes`` is the maximum during a training step.

    ``average_bytes`` is what averages of weights take of ``optimizer_bytes``, beside moments.
    ``activations_bytes`` is what forward saves for backward. The peak can be lower than the sum,
    since backward frees activations while it allocates gradients, or higher, by temporaries, copies
    of weights and the batch. ``recompute``: only the input of each layer is saved.

    ``microbatch`` is the number of examples the figures assume: the spec's, or the largest that
    fits, at most the batch. ``largest_microbatch`` is the largest that fits regardless of the
    batch; 0 if none does.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    average_bytes: int = 0
    activations_bytes: int
    peak_bytes: int
    microbatch: int
    largest_microbatch: int
    recompute: bool


class Time(_Figures):
    """Seconds on a named device, assuming that matmuls reach ``product_share`` of its peak FLOP/s.

    ``source`` says where that share comes from. ``assumed_mfu`` is the resulting share of useful
    FLOPs, with everything a step does besides matmuls included.

    Ranges are of a device whose rates are rough (``Device.time_within``), else None.
    """

    device: str
    seconds_per_step: float
    seconds_total: float
    assumed_mfu: float
    product_share: float
    source: str
    seconds_per_step_range: tuple[float, float] | None = None
    seconds_total_range: tuple[float, float] | None = None

    @property
    def basis(self) -> str:
        """The source of the seconds, as a sentence."""
        return f"{self.source[0].upper()}{self.source[1:]}."

    @property
    def hours(self) -> float:
        """Device hours."""
        return self.seconds_total / 3600

    @property
    def step_text(self) -> str:
        """The time of a step, or its range."""
        return _text(self.seconds_per_step, self.seconds_per_step_range)

    @property
    def total_text(self) -> str:
        """The time of the run, or its range."""
        return _text(self.seconds_total, self.seconds_total_range)

    @property
    def hours_range(self) -> tuple[float, ...]:
        """Device hours: one figure, or the two of a range."""
        between = self.seconds_total_range or (self.seconds_total,)
        return tuple(seconds / 3600 for seconds in between)


def _text(seconds: float, between: tuple[float, float] | None) -> str:
    return range_text(*between) if between else duration_text(seconds)


class Spread(_Figures):
    """Distribution of a run over devices, ``per_host`` to a machine.

    Memory is then per device; ``communication_seconds`` is the wait per step for other devices.
    """

    devices: int
    per_host: int
    strategy: Literal["single", "ddp", "fsdp", "hsdp"]
    communication_seconds: float


class PartCost(_Figures):
    """Cost of one part of a network or step: seconds by bound, and bytes.

    ``state_bytes`` is weights and gradients, for the optimiser moments and averages of weights;
    ``activations_bytes`` is what forward saves for backward. On a GPU ``start_seconds`` is launch
    time beyond the device's own work.
    """

    part: str
    seconds: float
    arithmetic_seconds: float
    memory_seconds: float
    start_seconds: float
    state_bytes: int
    activations_bytes: int


class StageEstimate(_Figures):
    """Cost of one stage; ``parameters`` counts the weights that it trains.

    FLOPs and time assume ``row_tokens`` per row: ``seq`` for text, the mean length for tasks.
    ``kept_bytes`` are those of teachers' outputs on disk, which are then computed once.
    """

    name: str
    steps: int
    batch: int
    seq: int
    row_tokens: int
    parameters: Parameters
    flops: Flops
    memory: Memory
    time: Time
    where: tuple[PartCost, ...]
    kept_bytes: int = 0


class FromStart(_Figures):
    """Comparison of a growing run with training the last stage's network from the start.

    ``flops_total`` and ``seconds_total`` are of the same number of steps without growing.
    ``steps_of_same_flops`` is how many such steps the growing run's FLOPs would pay for, at the
    mean cost of a step, taking ``seconds_of_same_flops``.
    """

    layers: int
    flops_total: int
    seconds_total: float
    steps_of_same_flops: int
    seconds_of_same_flops: float


class Pruned(_Figures):
    """The network that is left when a run has removed heads or neurons, trained no further.

    FLOPs are exact up to the last layer's, which depend on how many that layer loses.
    """

    parameters: int
    forward_per_example: int


class Totals(_Figures):
    """Figures of a whole program: sums over stages, and the memory of the stage that needs most."""

    format_version: Annotated[Literal[1], Field(serialization_alias="schema")] = 1
    name: str
    fingerprint: str
    parameters: Parameters
    flops: Flops
    memory: Memory
    time: Time
    stages: tuple[StageEstimate, ...]
    spread: Spread | None = None
    from_start: FromStart | None = None
    pruned: Pruned | None = None

    def as_json(self, *, where: bool = False) -> dict[str, object]:
        """The estimate as plain values, under the names of the published schema.

        ``where`` adds the cost of each part of a stage.
        """
        # Omit absent fields.
        left_out: dict[str, Any] = {
            name: True for name in ("spread", "from_start", "pruned") if getattr(self, name) is None
        }
        stages: dict[str, Any] = {} if where else {"where": True}
        absent = {n for n in ("generator", "frozen") if not getattr(self.parameters, n)}
        if absent:
            left_out["parameters"] = absent
            stages["parameters"] = absent
        unused = {
            n for n in ("frozen_per_example", "update_per_step") if not getattr(self.flops, n)
        }
        if unused:
            left_out["flops"] = stages["flops"] = unused
        if not any(stage.memory.average_bytes for stage in self.stages):
            left_out["memory"] = stages["memory"] = {"average_bytes"}
        if self.time.seconds_total_range is None:
            left_out["time"] = stages["time"] = {"seconds_per_step_range", "seconds_total_range"}
        if not any(stage.kept_bytes for stage in self.stages):
            stages["kept_bytes"] = True
        left_out["stages"] = {"__all__": stages}
        return self.model_dump(mode="json", by_alias=True, exclude=left_out)
