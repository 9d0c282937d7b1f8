"""The estimate as a value; its dump is the JSON of ``bertc estimate --json``."""

from html import escape
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.diagnostics import UsageError

Convention = Literal["exact", "electra", "6n"]
"""How FLOPs are counted.

``exact``: what bertc executes; a multiply-add is 2, backward is twice forward, table lookups are
nothing, the vocabulary projection works on predicted positions only. ``electra``: the rules of
ELECTRA's published counter. ``6n``: 6 x tokens x the weights that a token meets.
"""
CONVENTIONS: tuple[Convention, ...] = ("exact", "electra", "6n")


def convention_named(name: str) -> Convention:
    """The convention of that name.

    Raises:
        UsageError: if there is none.
    """
    for convention in CONVENTIONS:
        if convention == name.lower():
            return convention
    raise UsageError(f"unknown convention {name}", help=f"--convention {' or '.join(CONVENTIONS)}")


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Parameters(_Figures):
    """Trainable weights: shared ones once, but in ``applied`` once for every layer that uses them.

    ``encoder`` is embeddings + layers + pooler; ``generator`` what it has beside them, if there is
    one; ``total`` is both + heads; tied tables count once. ``by_part`` adds up to ``total``.
    """

    encoder: int
    generator: int
    embeddings: int
    layers: int
    pooler: int
    heads: int
    total: int
    applied: int
    by_part: dict[str, int]


class Flops(_Figures):
    """Floating-point operations in one convention. Of a run of several stages: its mean example
    and its mean step.
    """

    convention: Convention
    forward_per_example: int
    train_per_example: int
    train_per_step: int
    train_total: int


class Memory(_Figures):
    """Bytes on the device. ``peak_bytes`` are in use at the fullest moment of training.

    ``activations_bytes`` is what forward leaves for backward. Backward lets go of it while it makes
    the gradients, so that the peak can be less than the sum; products under way, copies of weights
    and the batch can make it more. ``recompute``: of a layer only the input is kept.

    ``microbatch`` is the number of examples whose activations are counted: what the spec sets, or
    the most that fit, at most the batch. ``largest_microbatch`` is the most that fit whatever the
    batch; 0 if not even one does.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    peak_bytes: int
    microbatch: int
    largest_microbatch: int
    recompute: bool


class Time(_Figures):
    """Seconds on a named device, of whose peak products get ``product_share``, as ``source`` says.

    ``assumed_mfu`` is what that leaves useful FLOPs with all that a step does beside products.
    """

    device: str
    seconds_per_step: float
    seconds_total: float
    assumed_mfu: float
    product_share: float
    source: str

    @property
    def hours(self) -> float:
        """Device hours."""
        return self.seconds_total / 3600


class Spread(_Figures):
    """How a run is spread over devices, ``per_host`` of them a machine; memory is then of one of
    them, and ``communication_seconds`` of a step are spent waiting for the others.
    """

    devices: int
    per_host: int
    strategy: Literal["single", "ddp", "fsdp", "hsdp"]
    communication_seconds: float


class PartCost(_Figures):
    """What one part of a network, or of a step, takes: time by what bounds it, and memory.

    ``state_bytes`` are weights with their gradients, of the optimiser its moments;
    ``activations_bytes`` what forward leaves for backward. Start-up on a GPU is what launching
    takes beyond the time that the device works.
    """

    part: str
    seconds: float
    arithmetic_seconds: float
    memory_seconds: float
    start_seconds: float
    state_bytes: int
    activations_bytes: int


class StageEstimate(_Figures):
    """What one stage costs; ``parameters`` are those that the stage trains.

    FLOPs and time are of rows of ``row_tokens``: of text ``seq``, of tasks their mean.
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


class FromStart(_Figures):
    """A run that grows beside one that trains the last stage's network all along.

    ``flops_total`` and ``seconds_total`` are of the same steps; the FLOPs of the run that grows pay
    for ``steps_of_same_flops`` of them, with the mean step, in ``seconds_of_same_flops``.
    """

    layers: int
    flops_total: int
    seconds_total: float
    steps_of_same_flops: int
    seconds_of_same_flops: float


class Estimate(_Figures):
    """What a whole program costs: sums over its stages, and the memory of the fullest one."""

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

    def __str__(self) -> str:
        """The table that ``bertc estimate`` prints."""
        from bertc.estimate.table import as_table

        return as_table([self])

    def __repr__(self) -> str:
        """The same, for who looks at it in a Python shell."""
        return str(self)

    def _repr_html_(self) -> str:
        """The same in a notebook, in columns."""
        return f"<pre>{escape(str(self))}</pre>"

    def as_json(self, *, where: bool = False) -> dict[str, object]:
        """The estimate as plain values, under the names of the published schema.

        With ``where`` also what each part of a stage takes.
        """
        # What there is not is not spoken of.
        left_out: dict[str, Any] = {
            name: True for name in ("spread", "from_start") if getattr(self, name) is None
        }
        stages: dict[str, Any] = {} if where else {"where": True}
        if not self.parameters.generator:
            left_out["parameters"] = {"generator"}
            stages["parameters"] = {"generator"}
        left_out["stages"] = {"__all__": stages}
        return self.model_dump(mode="json", by_alias=True, exclude=left_out)
