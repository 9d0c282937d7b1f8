"""Update rules and schedules for the file of a program, with their numbers in place."""

from collections.abc import Iterable
from typing import assert_never

from bertc.ir.base import Weight
from bertc.ir.learning.optimizer import (
    Adam,
    ConstantRate,
    Cosine,
    Decay,
    InverseSqrt,
    Lamb,
    Optimizer,
    Polynomial,
    StableAdam,
    WarmupStableDecay,
)
from bertc.ir.program.stage import Stage

UPDATE = '''
@torch.no_grad()
def update(model, moments, step, lr):
    """Update ``step``, from 1: {title}."""
    weights = {{name: w for name, w in model.named_parameters() if w.grad is not None}}
{norm}    for name, weight in weights.items():
        gradient = weight.grad{clipped}
        if name not in moments:
            moments[name] = torch.zeros_like(weight), torch.zeros_like(weight)
        mean, square = moments[name]
        mean.lerp_(gradient, {one})
        square.mul_({second}).addcmul_(gradient, gradient, value={two})
{correct}{caution}        change = {mean} / (deviation + {eps})
        if {decayed}:
            change += {decay} * weight
{ratio}        weight -= {scaled} * change
'''
NORM = """    norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights.values()])
"""
CAUTION = """        relative = gradient / deviation.clamp(min={eps})
        caution = relative.square().mean().sqrt().clamp(min=1)
"""
RATIO = """        trust = 1.0
        if {adapted} and weight.norm() > 0 and change.norm() > 0:
            trust = weight.norm() / change.norm()
"""
TITLES = {
    "adam": "Adam with decoupled decay (Loshchilov and Hutter 2019)",
    "lamb": "LAMB (You et al. 2020), as ALBERT's code has it",
    "stable-adamw": "StableAdamW (Wortsman et al. 2023)",
}


def update_function(rule: Optimizer, table: Iterable[Weight]) -> str:
    """The function that updates all weights."""
    assert isinstance(rule, Adam | Lamb | StableAdam), "others are refused before"
    exempt = {weight.name for weight in table if weight.role in ("bias", "norm")}
    plain = {weight.name for weight in table if len(weight.shape) < 2}
    matrix = "weight.ndim > 1" if plain == exempt else f"name not in {sorted(exempt)!r}"
    decayed = "True" if rule.decay_exempt == "none" else matrix
    first, second = rule.betas
    mean, correct = "mean", "        deviation = square.sqrt()\n"
    if rule.bias_correction:
        mean = f"(mean / (1 - {first}**step))"
        correct = f"        deviation = (square / (1 - {second}**step)).sqrt()\n"
    scaled, ratio = "lr", ""
    if isinstance(rule, Lamb):
        adapted = "True" if rule.adapt_exempt == "none" else matrix
        scaled, ratio = "lr * trust", RATIO.format(adapted=adapted).replace("True and ", "")
    caution = CAUTION.format(eps=rule.eps) if isinstance(rule, StableAdam) else ""
    limit = "norm" if rule.clip == 1 else f"(norm / {rule.clip})"
    clipped = f" / {limit}.clamp(min=1)" if rule.clip else ""
    text = UPDATE.format(
        title=TITLES["adam" if isinstance(rule, Adam) else rule.kind],
        norm=NORM if rule.clip else "",
        clipped=clipped,
        one=f"1 - {first}",
        second=second,
        two=f"1 - {second}",
        correct=correct,
        caution=caution,
        mean=mean,
        eps=rule.eps,
        decayed=decayed,
        decay=rule.decay_by_rate,
        ratio=ratio,
        scaled="lr / caution" if caution else scaled,
    )
    always = f"        if True:\n            change += {rule.decay_by_rate} * weight\n"
    text = text.replace(always, always[len("        if True:\n    ") :])
    unchanged = f"        if {decayed}:\n            change += 0.0 * weight\n"
    return text.replace(unchanged, "")


def rate_function(stage: Stage) -> str:
    """The function from the number of earlier updates to a learning rate."""
    schedule = stage.optimizer.schedule
    if not stage.warmup_steps:
        warm = "factor"
    elif isinstance(schedule, Decay) and schedule.decay_from == "throughout":
        warm = "factor * min(1.0, step / WARMUP)"
    else:
        warm = "(step / WARMUP if step < WARMUP else factor)"
    lines = ["def rate(step):", '    """The learning rate after ``step`` updates."""']
    return "\n".join([*lines, *_factor(stage), f"    return PEAK * {warm}"])


def _factor(stage: Stage) -> list[str]:
    """Statements of the factor on the peak rate."""
    match stage.optimizer.schedule:
        case Polynomial() | Cosine() as schedule:
            end = max(schedule.end, schedule.end_lr / stage.optimizer.lr)
            over = "step / SCHEDULE"
            if stage.warmup_steps and schedule.decay_from == "warmup":
                over = "(step - WARMUP) / max(1, SCHEDULE - WARMUP)"
            falls = "(1 + math.cos(math.pi * progress)) / 2"
            if isinstance(schedule, Polynomial):
                power = schedule.power
                falls = "1 - progress" if power == 1 else f"(1 - progress) ** {power}"
            return [f"    progress = min(1.0, {over})", _between(end, falls)]
        case ConstantRate():
            return ["    factor = 1.0"]
        case InverseSqrt():
            return ["    factor = (max(1, WARMUP) / max(1, step)) ** 0.5"]
        case WarmupStableDecay(shape=shape, end=end):
            decay = stage.optimizer.decay_steps(stage.schedule_steps)
            falls = {
                "1-sqrt": "1 - progress**0.5",
                "linear": "1 - progress",
                "cosine": "(1 + math.cos(math.pi * progress)) / 2",
            }[shape]
            begun = f"    begun = max(0, step - (SCHEDULE - {decay}))"
            return [
                begun,
                f"    progress = min(1.0, begun / {max(1, decay)})",
                _between(end, falls),
            ]
        case unreachable:
            assert_never(unreachable)


def _between(end: float, falls: str) -> str:
    """The factor that falls from 1 to ``end``."""
    return f"    factor = {end} + (1 - {end}) * ({falls})" if end else f"    factor = {falls}"
