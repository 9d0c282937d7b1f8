"""The estimate as a value, and as the JSON of ``bertc estimate --json``; what it is made for.

That is how operations are executed, and the device budget that a step has to fit.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from bertc.base.diagnostics import UsageError
from bertc.cost.planning.world import Strategy
from bertc.cost.units import range_text
from bertc.ir import operation as op
from bertc.ir.base import DeviceKind, once
from bertc.ir.program import Network, Stage
from bertc.ir.program.passing import forward_pass

Convention = Literal["exact", "electra", "6n"]
"""Rules for counting FLOPs.

``exact``: what bertc executes; a multiply-add is 2, backward is twice forward, table lookups are
nothing, the vocabulary projection works on predicted positions only. ``electra``: the rules of
ELECTRA's published counter. ``6n``: 6 x tokens x the weights that a token meets."""
CONVENTIONS: tuple[Convention, ...] = ("exact", "electra", "6n")
IF_ANY = (
    "generator", "untrained", "frozen", "frozen_per_example", "update_per_step", "methods_bytes",
    "within", "spread", "left", "data", "expected",
)  # fmt: skip
"""Figures that JSON has only where they are not 0 or absent."""


def convention_named(name: str) -> Convention:
    """Parse the name of a convention."""
    for convention in CONVENTIONS:
        if convention == name.lower():
            return convention
    raise UsageError(f"unknown convention {name}", help=f"--convention {' or '.join(CONVENTIONS)}")


class Parameters(NamedTuple):
    """Number of trainable weights; tied and shared tensors count once, in ``applied`` once per use.

    ``encoder`` is embeddings + layers + pooler; ``generator`` is what a generator adds to them;
    ``total`` is both + heads, of which ``untrained`` are those that an adapter leaves as they are.
    ``by_part`` sums to ``total``, in which ``frozen`` networks do not count.
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
    untrained: int = 0

    @property
    def trained(self) -> int:
        """Number of weights with gradients and moments."""
        return self.total - self.untrained


class Flops(NamedTuple):
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


class Memory(NamedTuple):
    """Bytes on the device; ``peak_bytes`` is the maximum during a training step, no sum of parts.

    ``methods_bytes`` is what methods of stages take of ``optimizer_bytes``, beside moments.
    ``activations_bytes`` is what forward saves for backward; with ``recompute`` the input of each
    layer. ``microbatch`` is the number of examples the figures assume: the spec's, or the largest
    that fits, at most the batch. ``largest_microbatch`` fits regardless of the batch; 0: none.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    methods_bytes: int
    activations_bytes: int
    peak_bytes: int
    microbatch: int
    largest_microbatch: int
    recompute: bool


class Time(NamedTuple):
    """Seconds on a named device, assuming that matmuls reach ``product_share`` of its peak FLOP/s.

    ``source`` says where that share comes from. ``assumed_mfu`` is the resulting share of useful
    FLOPs. Where rates are rough, seconds are expected ``within`` a factor, else None.
    """

    device: str
    seconds_per_step: float
    seconds_total: float
    assumed_mfu: float
    product_share: float
    source: str
    within: float | None

    @property
    def basis(self) -> str:
        """The source of the seconds, as a sentence."""
        return f"{self.source[0].upper()}{self.source[1:]}."

    @property
    def step_text(self) -> str:
        """The time of a step, or its range."""
        return range_text(*self.time_range(self.seconds_per_step))

    @property
    def total_text(self) -> str:
        """The time of the run, or its range."""
        return range_text(*self.time_range(self.seconds_total))

    def time_range(self, seconds: float) -> tuple[float, ...]:
        """A time, or the shortest and the longest of its range."""
        return (seconds / self.within, seconds * self.within) if self.within else (seconds,)


class Spread(NamedTuple):
    """Distribution of a run over devices, ``per_host`` to a machine.

    Memory is then per device; ``communication_seconds`` is all messages of a step,
    ``exposed_seconds`` is what a step waits for them.
    """

    devices: int
    per_host: int
    strategy: Literal["single", "ddp", "fsdp", "hsdp"]
    communication_seconds: float
    exposed_seconds: float


class PartCost(NamedTuple):
    """Cost of one part of a network or step: seconds by bound, and bytes.

    ``state_bytes`` is weights and gradients, for the optimiser moments and what methods have;
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


class DataEstimate(NamedTuple):
    """The text of a run or a stage; ``passes`` are over the text that is drawn most often.

    ``prepare_seconds`` are of ``cores`` cores. Each machine downloads ``download_bytes`` of what
    is in a store, and has ``cache_hit_share`` of its reading from its cache. ``reader_share`` is
    the time of reading over that of training; above 1 training waits.
    """

    text_bytes: int
    tokens: int
    counted: bool
    tokens_read: int
    passes: float
    prepared_bytes: int
    prepare_seconds: float
    cores: int
    download_bytes: int
    cache_hit_share: float
    over_cache_bytes: int
    reader_share: float


class Expected(NamedTuple):
    """A loss in nats by a law, and its interval; ``times``: FLOPs over the law's largest run."""

    loss: float
    low: float
    high: float
    times: float

    @property
    def is_far(self) -> bool:
        """True beyond 30 times the FLOPs of the law's largest run, where no law is trusted."""
        return self.times > 30

    def __str__(self) -> str:
        return "{:.3f} ({:.3f} to {:.3f})".format(*self) + ", too far to be trusted" * self.is_far


class StageEstimate(NamedTuple):
    """Cost of one stage; ``parameters`` counts the weights that it trains.

    FLOPs and time assume ``row_tokens`` per row: ``seq`` for text, the mean length for tasks.
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
    spread: Spread | None
    data: DataEstimate | None = None


class Left(NamedTuple):
    """The network that is left when a run has removed heads or neurons, trained no further."""

    parameters: int
    forward_per_example: int


def plain(figures: Any, left_out: Collection[str] = ()) -> Any:
    """Figures under the names of the published schema, but for those that are left out."""
    if hasattr(figures, "_asdict"):
        figures = figures._asdict()
    if isinstance(figures, tuple):
        return [plain(item, left_out) for item in figures]
    if not isinstance(figures, Mapping):
        return figures
    present = ((name, figure) for name, figure in figures.items() if figure or name not in IF_ANY)
    return {name: plain(figure, left_out) for name, figure in present if name not in left_out}


FP32 = 4

Bf16 = Literal["native", "rounded", "looped"]
"""Ways of devices to make products of bf16 numbers: by instructions, in fp32, or looped.

In fp32 they are rounded afterwards; looped by torch's own code there is no copy in fp32."""


class Execution(NamedTuple):
    """Device kind, activation precision and compilation; weights are always fp32."""

    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool
    bf16: Bf16 = "native"

    @property
    def value_bytes(self) -> int:
        """Bytes per activation element."""
        return 2 if self.precision == "bf16" else FP32

    @property
    def mask_bytes(self) -> int:
        """Bytes per element of a dropout mask: 1 on a GPU; an eager CPU saves only the seed."""
        if self.device != "cpu":
            return 1
        return self.value_bytes if self.compiled else 0

    @property
    def unrounded_bytes(self) -> int:
        """Bytes beside each number of a bf16 product that the device makes in fp32 and rounds."""
        return FP32 if self.precision == "bf16" and self.bf16 == "rounded" else 0


ANY = Execution("cpu", "fp32", compiled=False)
"""Settings for counting FLOPs, which do not depend on them."""


class DeviceBudget(NamedTuple):
    """Device and settings of a step; ``memory_bytes`` excludes a CUDA context that has ``begun``.

    With ``strategy="ddp"`` gradients persist between steps.
    """

    memory_bytes: int
    execution: Execution
    recompute: Literal["auto", "on", "off"]
    strategy: Strategy = "single"
    begun: bool = False


@once
def passes_of(stage: Stage, rows: int) -> tuple[tuple[Network, op.Forward], ...]:
    """Each network with its forward pass over ``rows`` rows."""
    return tuple((network, forward_pass(stage, network, rows)[0]) for network in stage.networks())
