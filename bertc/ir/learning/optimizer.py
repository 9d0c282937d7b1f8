"""Update rules."""

from collections.abc import Iterable
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Node, Tokens, Weight
from bertc.ir.learning import schedule as schedules
from bertc.ir.learning.schedule import ConstantRate, Decay, Polynomial, WarmupStableDecay
from bertc.ir.own import OwnClass, Work

Exempt = Literal["norms-and-biases", "norms-biases-and-tables", "none"]
"""Weights that are left out, tables are embeddings."""
MOVED = {"adam": 7, "lamb": 18}
"""Numbers moved per weight: Adam reads four and writes three; LAMB also computes norms, as
StableAdamW does."""
Beta = Annotated[float, Field(ge=0, lt=1)]


def steps_of(length: int | float | Tokens, steps: int) -> int:
    """A length in steps, of a share of ``steps``."""
    assert not isinstance(length, Tokens), "a pass has made them steps"
    return length if isinstance(length, int) else round(length * steps)


class _Rule(Node):
    """An update rule; decay is apart from the gradient: p -= rate x decay x p."""

    lr: Annotated[float, Field(gt=0, le=100)] = 1e-4  # BERT paper, appendix A.2
    warmup: schedules.Warmup = 0.01  # BERT paper, appendix A.2: 10,000 of 1,000,000 steps
    schedule: schedules.Schedule = Polynomial()
    decay: Annotated[float, Field(ge=0, le=10)] = 0.01
    decay_exempt: Exempt = "norms-and-biases"
    clip: Annotated[float, Field(ge=0, le=1e6)] = 1.0  # limit of the norm; 0 switches it off
    # The norm is that of all gradients together, or of each tensor's (BertAdam, optimization.py).
    clip_per: Annotated[Literal["model", "tensor"], Field(exclude_if="model".__eq__)] = "model"
    positional = ("lr",)

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if isinstance(self.schedule, Decay) and self.schedule.end_lr > self.lr:
            message = f"end_lr = {self.schedule.end_lr:g} is above lr = {self.lr:g}"
            raise ValueError(message, "set end_lr below lr, or leave it out")
        match self.schedule:
            case Decay(end=0, end_lr=0, cooldown=cooldown) if cooldown:
                help = "set a final rate, as in cosine(10%, cooldown=1.6%)"
                raise ValueError("cooldown falls from the final rate, which is 0", help)
        return self

    def exempt(self, table: Iterable[Weight], adapting: bool = False) -> set[str]:
        """The names of the weights that do not decay, or that LAMB does not adapt."""
        names = getattr(self, "adapt_exempt", "none") if adapting else self.decay_exempt
        roles = ("norm", "bias", "table")[: {"none": 0, "norms-and-biases": 2}.get(names, 3)]
        return {weight.name for weight in table if weight.role in roles}

    by_tensor: ClassVar[bool] = False
    """True if bertc's update of an element depends on others of its tensor."""

    @property
    def keeps(self) -> str:
        return "two moments of each weight"

    @property
    def effort(self) -> float:
        """The numbers that it moves, relative to Adam's or LAMB's."""
        return 1.0

    def moments(self, weight: Weight) -> tuple[str, ...]:
        """Names of running means: of a weight's gradients (m), and of their squares (v)."""
        return ("m", "v")

    def operations(self, weight: Weight) -> tuple[op.Product, ...]:
        return ()

    @property
    def decay_by_rate(self) -> float:
        """The decay that the learning rate multiplies: a step takes rate x this off each weight."""
        return self.decay

    def schedule_steps(self, steps: int) -> int:
        over = self.schedule.over if isinstance(self.schedule, Decay) else 0
        return steps_of(over, steps) or steps

    def warmup_steps(self, steps: int) -> int:
        return steps_of(self.warmup, steps)

    @property
    def last(self) -> schedules.Length:
        """The length of the fall that ends its schedule: the decay of wsd, or a cool-down."""
        match self.schedule:
            case WarmupStableDecay(decay=last) | Decay(cooldown=last):
                return last
            case _:
                return 0

    def decay_steps(self, steps: int) -> int:
        """The same in steps, of a schedule of ``steps`` steps."""
        return steps_of(self.last, steps)


class _Averaged(_Rule):
    """A rule of two running means."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-6  # BERT optimization.py AdamWeightDecayOptimizer
    bias_correction: bool = True


class _Decoupled(_Averaged):
    """A rule whose decay may be decoupled from the learning rate too.

    ``decoupled``: at the peak rate a step takes ``decay`` off each weight, else ``lr`` x ``decay``
    (Loshchilov and Hutter 2019, algorithm 2; MosaicBERT, DecoupledAdamW).
    """

    decoupled: Annotated[bool, Field(exclude_if=not_)] = False

    @property
    def decay_by_rate(self) -> float:
        """``decay``, relative to the peak rate where it is decoupled."""
        return self.decay / self.lr if self.decoupled else self.decay


class Adam(_Decoupled):
    """Adam with decay apart from the gradient; uncorrected, it is BERT's AdamWeightDecay."""

    kind: Literal["adam", "adamw"] = "adamw"
    # The rate of a layer is this times that of the layer above; heads have the full rate,
    # embeddings the lowest (ELECTRA configure_finetuning.py layerwise_lr_decay).
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    # The gradient of a layer is this times that of the one above it; the top layer, heads and
    # embeddings keep theirs (XLNet model_utils.py lr_layer_decay_rate).
    gradient_decay: Annotated[float, Field(gt=0, le=1)] = 1.0


class Lamb(_Averaged):
    """Adam's update, rescaled per tensor to the norm of its weights (You et al. 2020; ALBERT).

    ``adapt_exempt``: norms and biases take the plain update (ALBERT lamb_optimizer.py), with
    ``norms-biases-and-tables`` embeddings too (LTG-BERT, train.py).
    """

    kind: Literal["lamb"] = "lamb"
    by_tensor: ClassVar[bool] = True
    adapt_exempt: Exempt = "norms-and-biases"
    bias_correction: bool = False


class StableAdam(_Decoupled):
    """Adam whose rate is lower for a tensor while its gradients outgrow their own average.

    The rate of a tensor is divided by max(1, RMS of g / max(sqrt(v), eps)) (Wortsman et al. 2023,
    algorithm 2), which stands in for clipping. Defaults are those of ModernBERT
    (modernbert-base-pretrain.yaml; torch-optimi, StableAdamW).
    """

    kind: Literal["stable-adamw"] = "stable-adamw"
    by_tensor: ClassVar[bool] = True
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    decay: Annotated[float, Field(ge=0, le=10)] = 1e-5
    clip: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    decoupled: bool = True


MUON_AT_ONCE = 1 << 22
"""Elements of matrices of one shape that Muon multiplies together: what caches hold."""


class Muon(_Averaged):
    """Momentum of matrices, made orthogonal; AdamW for tables, heads, norms and biases.

    ``ns_steps`` Newton-Schulz iterations in bf16, on a CPU in the step's precision, bring the
    singular values of a matrix's momentum near 1 (Jordan et al. 2024). ``adjust`` is the factor on
    its rate: ``match_rms_adamw`` gives the update the size of AdamW's, .2 sqrt(max(rows, columns))
    (Liu et al. 2025, section 2.2), so that both have one rate; ``original`` is
    sqrt(max(1, rows / columns)). Other weights learn at ``adamw_lr``, 0: at ``lr``. Defaults are
    those of torch.optim.Muon.
    """

    kind: Literal["muon"] = "muon"
    keeps: ClassVar[str] = "one moment of each matrix"
    lr: Annotated[float, Field(gt=0, le=100)] = 1e-3
    decay: Annotated[float, Field(ge=0, le=10)] = 0.1
    momentum: Beta = 0.95
    nesterov: bool = True
    ns_steps: Annotated[int, Field(ge=1, le=99)] = 5
    adjust: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    adamw_lr: Annotated[float, Field(ge=0, le=100)] = 0.0

    @property
    def of_others(self) -> Adam:
        """The rule of the weights whose momentum is not made orthogonal."""
        shared = {name: getattr(self, name) for name in _Averaged.model_fields}
        # Their rate is told at each update: a schedule's limits are those of ``lr``.
        of_rate = {"lr": self.adamw_lr or self.lr, "schedule": ConstantRate()}
        return Adam(**{**shared, **of_rate})

    def takes(self, weight: Weight) -> bool:
        """True if it makes the weight's momentum orthogonal."""
        matrix = weight.role == "matrix" and len(weight.shape) == 2 and not weight.frozen
        return matrix and weight.part not in ("pooler", "head")

    def moments(self, weight: Weight) -> tuple[str, ...]:
        return ("m",) if self.takes(weight) else ("m", "v")

    def by_gram(self, narrow: int, wide: int) -> bool:
        """True if its iterations are of X X^T alone, which is cheaper for a matrix so long.

        After three of them what bf16 rounds off has grown too large.
        """
        return wide >= 2 * narrow and 1 < self.ns_steps <= 3

    def operations(self, weight: Weight) -> tuple[op.Product, ...]:
        """The products of its iterations: X X^T, the square of that, and the square times X."""
        if not self.takes(weight):
            return ()
        narrow, wide = sorted(weight.shape)
        by_gram = self.by_gram(narrow, wide)
        long = 1 if by_gram else self.ns_steps
        square = 4 * self.ns_steps - 3 if by_gram else self.ns_steps
        shapes = (narrow, wide, narrow), (narrow, narrow, narrow), (narrow, narrow, wide)
        times = zip(shapes, (long, square, long), strict=True)
        return tuple(op.Product(*shape, times=number, maps=0) for shape, number in times)


class OwnRule(OwnClass, _Rule):
    """A class of the user's own: ``update`` makes what the rate times is taken off a weight.

    ``state`` names its moments.
    """

    kind: Literal["own"] = "own"
    state: tuple[str, ...] = ()
    works: tuple[Work, ...] = ()
    looked_up = (*OwnClass.looked_up, "state", "works")

    @property
    def keeps(self) -> str:
        return f"the moments {', '.join(self.state)}" if self.state else "no moments"

    @property
    def effort(self) -> float:
        # Rate and decay move 5; an operation reads one number or two of a weight, and writes one.
        done = [work.at(64, 64) for work in self.works]
        moved = 5 + 2.5 * sum(o.elements for o in done if isinstance(o, op.Pointwise)) / 64**2
        return moved / MOVED["adam"]

    def moments(self, weight: Weight) -> tuple[str, ...]:
        return self.state

    def operations(self, weight: Weight) -> tuple[op.Product, ...]:
        """Its products of a matrix, which it may have turned to be wide."""
        done = [work.at(*sorted(weight.shape)) for work in self.works if len(weight.shape) == 2]
        return tuple(o for o in done if isinstance(o, op.Product))


Optimizer = Annotated[Adam | Lamb | StableAdam | Muon | OwnRule, BY_KIND]


def moments_of(optimizer: Optimizer, table: tuple[Weight, ...]) -> dict[str, Weight]:
    """The trained weight of each moment that a rule keeps, by name: ``m.<weight>``."""
    return {
        f"{moment}.{weight.name}": weight
        for weight in table
        if not weight.frozen
        for moment in optimizer.moments(weight)
    }
