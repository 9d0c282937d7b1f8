"""Update rules and schedules for the file of a program, with their numbers in place."""

from collections.abc import Iterable
from typing import assert_never

from bertc.ir.base import Weight
from bertc.ir.learning import optimizer
from bertc.ir.program.stage import Stage

TITLES = {
    "adam": "Adam with decoupled decay (Loshchilov and Hutter 2019)",
    "lamb": "LAMB (You et al. 2020), as ALBERT's code has it",
    "stable-adamw": "StableAdamW (Wortsman et al. 2023)",
}
COSINE = "(1 + math.cos(math.pi * progress)) / 2"


def update_function(rule: optimizer.Optimizer, table: Iterable[Weight]) -> str:
    """The function that updates all weights."""
    assert not isinstance(rule, optimizer.Muon), "it is refused before"
    table = tuple(table)
    plain = {weight.name for weight in table if len(weight.shape) < 2}
    decayed, adapted = (
        "weight.ndim > 1" if exempt == plain else exempt and f"name not in {sorted(exempt)!r}"
        for exempt in (rule.exempt(table), rule.exempt(table, adapting=True))
    )
    first, second = rule.betas
    limit = "norm" if rule.clip == 1 else f"(norm / {rule.clip})"
    mean, square = "mean", "square"
    if rule.bias_correction:
        mean, square = f"(mean / (1 - {first}**step))", f"(square / (1 - {second}**step))"
    lines = [f"gradient = weight.grad{f' / {limit}.clamp(min=1)' if rule.clip else ''}"]
    lines += ["if name not in moments:"]
    lines += ["    moments[name] = torch.zeros_like(weight), torch.zeros_like(weight)"]
    lines += ["mean, square = moments[name]", f"mean.lerp_(gradient, 1 - {first})"]
    lines += [f"square.mul_({second}).addcmul_(gradient, gradient, value=1 - {second})"]
    lines += [f"deviation = {square}.sqrt()"]
    rate = "lr"
    if isinstance(rule, optimizer.StableAdam):
        rate = "lr / caution"
        lines += [f"relative = gradient / deviation.clamp(min={rule.eps})"]
        lines += ["caution = relative.square().mean().sqrt().clamp(min=1)"]
    lines += [f"change = {mean} / (deviation + {rule.eps})"]
    if rule.decay_by_rate:
        lines += [f"if {decayed}:"] if decayed else []
        lines += [f"{'    ' if decayed else ''}change += {rule.decay_by_rate} * weight"]
    if isinstance(rule, optimizer.Lamb):
        rate, adapted = "lr * trust", f"{adapted} and " if adapted else ""
        lines += ["trust = 1.0", f"if {adapted}weight.norm() > 0 and change.norm() > 0:"]
        lines += ["    trust = weight.norm() / change.norm()"]
    norm = "norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights.values()])"
    return "\n".join(
        [
            "@torch.no_grad()",
            "def update(model, moments, step, lr):",
            f'    """Update ``step``, from 1: {TITLES.get(rule.kind, TITLES["adam"])}."""',
            "    weights = {name: w for name, w in model.named_parameters() if w.grad is not None}",
            *([f"    {norm}"] if rule.clip else []),
            "    for name, weight in weights.items():",
            *(f"        {line}" for line in [*lines, f"weight -= {rate} * change"]),
        ]
    )


def rate_function(stage: Stage) -> str:
    """The function from the number of earlier updates to a learning rate."""
    schedule, factor = stage.optimizer.schedule, "factor"
    if isinstance(schedule, optimizer.Decay) and schedule.decay_from == "throughout":
        factor = "factor * min(1.0, step / WARMUP)" if stage.warmup_steps else factor
    elif stage.warmup_steps:
        factor = "(step / WARMUP if step < WARMUP else factor)"
    lines = [*_factor(stage), f"return PEAK * {factor}"]
    head = ["def rate(step):", '    """The learning rate after ``step`` updates."""']
    return "\n".join([*head, *(f"    {line}" for line in lines)])


def _factor(stage: Stage) -> list[str]:
    """Statements of the factor on the peak rate."""
    schedule, last = stage.optimizer.schedule, stage.optimizer.decay_steps(stage.schedule_steps)
    match schedule:
        case optimizer.Polynomial() | optimizer.Cosine():
            end = max(schedule.end, schedule.end_lr / stage.optimizer.lr)
            over, falls = "step / SCHEDULE", COSINE
            if stage.warmup_steps and schedule.decay_from == "warmup":
                over = "(step - WARMUP) / max(1, SCHEDULE - WARMUP)"
            if isinstance(schedule, optimizer.Polynomial):
                power = schedule.power
                falls = "1 - progress" if power == 1 else f"(1 - progress) ** {power}"
            lines = [f"progress = min(1.0, {over})"]
        case optimizer.WarmupStableDecay(shape=shape, end=end):
            falls = {"1-sqrt": "1 - progress**0.5", "linear": "1 - progress", "cosine": COSINE}[
                shape
            ]
            lines = [f"begun = max(0, step - (SCHEDULE - {last}))"]
            lines += [f"progress = min(1.0, begun / {max(1, last)})"]
        case optimizer.ConstantRate():
            return ["factor = 1.0"]
        case optimizer.InverseSqrt():
            return ["factor = (max(1, WARMUP) / max(1, step)) ** 0.5"]
        case unreachable:
            assert_never(unreachable)
    lines += [f"factor = {end} + (1 - {end}) * ({falls})" if end else f"factor = {falls}"]
    if isinstance(schedule, optimizer.Decay) and last:
        lines += [f"if step >= SCHEDULE - {last}:"]
        lines += [f"    factor = {end} * max(0, SCHEDULE - step) / {last}"]
    return lines
