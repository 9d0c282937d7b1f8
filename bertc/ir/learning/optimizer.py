"""Update rules and learning-rate schedules."""

from collections.abc import Iterable
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Count, Node, Tokens, Weight

Exempt = Literal["norms-and-biases", "norms-biases-and-tables", "none"]
"""Weights that are left out, tables are embeddings."""
MomentName = Literal["m", "v"]
"""Running means of a weight's gradients (m), and of their squares (v)."""
Beta = Annotated[float, Field(ge=0, lt=1)]
Warmup = Count | Annotated[float, Field(ge=0, lt=1)] | Tokens
"""A number of steps, or a fraction of all steps (``6%``); tokens until they are steps."""

Length = Count | Annotated[float, Field(ge=0, le=1)] | Tokens
"""The same, up to all steps (``100%``)."""


class Decay(Node):
    """A schedule that decays to ``end`` x lr, or to ``end_lr`` if that is higher.

    It reaches that after ``over`` steps, possibly more than the run has (StackingBERT
    reproduce_bert.sh plans 800,000 updates and stops at 280,000); 0: at the last step.
    ``decay_from=start`` measures progress from step 0, so the rate drops at the end of warm-up
    (BERT and ALBERT, optimization.py; SpanBERT, polynomial_decay_schedule.py; Transformer-XL,
    train.py); ``throughout`` does too and scales warm-up by it (ELECTRA, optimization.py);
    ``warmup`` measures progress from the end of warm-up (RoBERTa, XLNet). Over the
    last ``cooldown`` steps the rate falls in a line from the final one to 0 (GPT-BERT utils.py,
    cosine_schedule_with_warmup_cooldown).
    """

    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    end_lr: Annotated[float, Field(ge=0, le=100)] = 0.0
    over: Count | Tokens = 0
    decay_from: Literal["start", "throughout", "warmup"] = "warmup"
    cooldown: Annotated[Count | Annotated[float, Field(ge=0, le=1)], Field(exclude_if=not_)] = 0


class Polynomial(Decay):
    """lr x (1 - progress)^power, down to the final rate."""

    kind: Literal["polynomial"] = "polynomial"
    power: Annotated[float, Field(gt=0, le=10)] = 1.0
    positional = ("power",)


class Cosine(Decay):
    """Half a cosine from lr to the final rate."""

    kind: Literal["cosine"] = "cosine"
    positional = ("end",)


class ConstantRate(Node):
    """Constant lr after warm-up."""

    kind: Literal["constant"] = "constant"


class InverseSqrt(Node):
    """lr x (warm-up / step)^1/2 after warm-up (fairseq; XLM optim.py, adam_inverse_sqrt)."""

    kind: Literal["inverse-sqrt"] = "inverse-sqrt"


class WarmupStableDecay(Node):
    """Constant lr after warm-up, and a decay to ``end`` x lr over the last steps (Hu et al. 2024).

    ``decay`` is a number of steps, or a fraction of all. ``shape`` is that of the decay:
    ``1-sqrt`` is ModernBERT's, 1 - sqrt(progress) (Haegele et al. 2024; warmup_stable_decay.py,
    one_minus_sqrt). Until it begins the rate depends on no number of steps.
    """

    kind: Literal["wsd"] = "wsd"
    decay: Length = 0.2
    shape: Literal["1-sqrt", "linear", "cosine"] = "1-sqrt"
    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    positional = ("decay",)


Schedule = Annotated[Polynomial | Cosine | ConstantRate | InverseSqrt | WarmupStableDecay, BY_KIND]


def steps_of(length: int | float | Tokens, steps: int) -> int:
    """A length in steps, of a share of ``steps``."""
    assert not isinstance(length, Tokens), "a pass has made them steps"
    return length if isinstance(length, int) else round(length * steps)


class _Rule(Node):
    """An update rule; decay is apart from the gradient: p -= rate x decay x p."""

    lr: Annotated[float, Field(gt=0, le=100)] = 1e-4  # BERT paper, appendix A.2
    warmup: Warmup = 0.01  # BERT paper, appendix A.2: 10,000 of 1,000,000 steps
    schedule: Schedule = Polynomial()
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-6  # BERT optimization.py AdamWeightDecayOptimizer
    decay: Annotated[float, Field(ge=0, le=10)] = 0.01
    decay_exempt: Exempt = "norms-and-biases"
    clip: Annotated[float, Field(ge=0, le=1e6)] = 1.0  # limit of the norm; 0 switches it off
    bias_correction: bool = True
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
    """True if the update of a tensor is scaled by a number of that tensor."""
    keeps: ClassVar[str] = "two moments of each weight"

    def moments(self, weight: Weight) -> tuple[MomentName, ...]:
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
    def last(self) -> Length:
        """The length of the fall that ends its schedule: the decay of wsd, or a cool-down."""
        match self.schedule:
            case WarmupStableDecay(decay=last) | Decay(cooldown=last):
                return last
            case _:
                return 0

    def decay_steps(self, steps: int) -> int:
        """The same in steps, of a schedule of ``steps`` steps."""
        return steps_of(self.last, steps)


class _Decoupled(_Rule):
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


class Lamb(_Rule):
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


class Muon(_Rule):
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
        shared = {name: getattr(self, name) for name in _Rule.model_fields}
        # Their rate is told at each update: a schedule's limits are those of ``lr``.
        of_rate = {"lr": self.adamw_lr or self.lr, "schedule": ConstantRate()}
        return Adam(**{**shared, **of_rate})

    def takes(self, weight: Weight) -> bool:
        """True if it makes the weight's momentum orthogonal."""
        matrix = weight.role == "matrix" and len(weight.shape) == 2 and not weight.frozen
        return matrix and weight.part not in ("pooler", "head")

    def moments(self, weight: Weight) -> tuple[MomentName, ...]:
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


Optimizer = Annotated[Adam | Lamb | StableAdam | Muon, BY_KIND]


def moments_of(optimizer: Optimizer, table: tuple[Weight, ...]) -> dict[str, Weight]:
    """The trained weight of each moment that a rule keeps, by ``m.<weight>`` and ``v.<weight>``."""
    return {
        f"{moment}.{weight.name}": weight
        for weight in table
        if not weight.frozen
        for moment in optimizer.moments(weight)
    }
