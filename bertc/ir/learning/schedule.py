"""Learning-rate schedules, and lengths in time, epochs, words and equal budgets."""

import math
from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.base.own_code import RefusedError, make
from bertc.ir.base import BY_KIND, Count, Node, Tokens
from bertc.ir.own import OwnClass

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
    ``warmup`` measures progress from the end of warm-up (RoBERTa, XLNet). Over the last
    ``cooldown`` steps the rate falls in a line from the final one to 0 (GPT-BERT utils.py,
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


class OwnSchedule(OwnClass):
    """A class of the user's own, which makes the factor on lr of the progress after warm-up."""

    kind: Literal["own"] = "own"

    def factor(self, progress: float) -> float:
        """The rate that its class makes of a progress from 0 to 1; raises RefusedError below 0."""
        rate = float(make(self).rate(progress))
        if not 0 <= rate < math.inf:
            raise RefusedError(f"the rate at a progress of {progress:g} is {rate:g}, not 0 or more")
        return rate


Schedule = Annotated[
    Polynomial | Cosine | ConstantRate | InverseSqrt | WarmupStableDecay | OwnSchedule, BY_KIND
]


class Flops(Node):
    """A number of FLOPs of training, in the exact convention: ``1e18 flops``."""

    flops: Annotated[float, Field(gt=0, le=1e40)]
    bare_number = ("flops",)
    number_unit = "flops"


class Hours(Node):
    """A time: ``2h``, ``90min``."""

    hours: Annotated[float, Field(gt=0, le=10**6)]
    bare_number = ("hours",)
    number_unit = "h"


class Words(Node):
    """A length in words, as white space separates them, which a pass turns into steps."""

    words: Annotated[int, Field(ge=1, le=10**18)]
    bare_number = ("words",)
    number_unit = "words"


class Epochs(Node):
    """A length in passes over the text of a stage, which a pass turns into steps."""

    epochs: Annotated[float, Field(gt=0, le=10**6)]
    bare_number = ("epochs",)
    number_unit = "epochs"


class Equal(Node):
    """The most steps that a budget has room for; a compilation turns it into their number.

    ``budget`` is what all points of a grid have alike: FLOPs or time as much as the first one
    takes, or as stated. ``steps`` are those of the first point; 0: as if it were not written.
    ``device`` is that on which time is estimated.
    """

    kind: Literal["equal"] = "equal"
    budget: Literal["flops", "time"] | Flops | Hours
    steps: Annotated[int, Field(ge=0, le=10**12)] = 0
    device: Annotated[str, Field(min_length=1)] = "h200"
    positional: ClassVar[tuple[str, ...]] = ("budget",)
