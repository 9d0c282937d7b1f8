"""The rungs of a ladder: narrower and shorter runs of a spec. Loads no torch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any

from bertc import Resolved, SpecError, UsageError, estimate
from bertc.lab_api import Program, points, units

WIDTHS = ((0.25, 0.5, 0.75), (1 / 6, 1 / 3, 0.5), (0.125, 0.25, 0.375))
"""Shares of the width; narrower ones where the time is too short for the first."""
LENGTHS = ((0.25, 0.5, 1.0), (0.25, 0.5), (0.25,))
"""Shares of the longest rung's steps, by width: narrow rungs alone are long, which costs little."""
FEWEST_STEPS = 100
"""Steps of the shortest rung."""
SHARE = 0.1
"""The part of the run's estimated time that a ladder takes where no time is given."""
BY_ROOT = ("adam", "adamw", "stable-adamw", "muon")
"""Rules whose best rate falls with the root of the width; that of LAMB does not."""
NETWORK = {"layers", "hidden", "heads", "ffn", "embedding", "share", "body", "attention"}


@dataclass(frozen=True)
class Planned:
    """A rung to train; ``seconds`` are estimated."""

    name: str
    program: Program
    resolved: Resolved
    seconds: float


def plan_ladder(
    program: Program, resolved: Resolved, device: str, seconds: float | None
) -> tuple[Planned, ...]:
    """The rungs that take ``seconds`` by estimate, the cheapest first.

    By default they take a tenth of the run's time, or what the shortest ladder takes.
    """
    time = seconds or SHARE * estimate(resolved, device).time.seconds_total
    least = 0.0
    for shares in WIDTHS:
        narrow = _narrow(program, resolved, shares)
        if len(narrow) < len(shares):
            continue
        paces = [estimate(rung, device).time.seconds_total / rung.steps for _, rung in narrow]
        enough = FEWEST_STEPS / LENGTHS[0][0]
        cost = sum(pace * sum(parts) for pace, parts in zip(paces, LENGTHS, strict=True))
        longest = time / cost
        if longest >= enough or seconds is None:
            longest = min(resolved.steps, max(enough, longest))
            rungs = [
                _shortened(*rung, round(part * longest), pace * round(part * longest))
                for rung, pace, parts in zip(narrow, paces, LENGTHS, strict=True)
                for part in parts
            ]
            return tuple(sorted(rungs, key=lambda rung: rung.seconds))
        least = enough * cost
    raise UsageError(
        f"a ladder within {units.duration_text(time)} would have fewer than {FEWEST_STEPS} steps",
        help=f"--time {ceil(least)}s" if least else "more heads, since rungs have fewer: heads=4",
    )


def refuse_others(program: Program, resolved: Resolved) -> None:
    """Refuse a program that no ladder is of, with the reason."""
    if any(stage.tasks for stage in resolved.stages) or resolved.run.init.kind != "random":
        raise UsageError(
            "a ladder learns from text alone, with random weights at first",
            help="a spec without task and init",
        )
    if resolved.run.most_seconds:
        raise UsageError("a law needs steps, and a time ends this run", help="steps=100k")
    for stage in _stages_of(program):
        if changed := sorted(NETWORK & stage.settings.keys()):
            raise UsageError(
                f"stage {stage.name} changes the network ({', '.join(changed)})",
                help="a forecast of its last network alone: a spec without stages",
            )
    shape = resolved.encoder.settings()
    if not isinstance(shape.get("heads"), int) or not isinstance(shape["ffn"], int | tuple):
        raise UsageError("a ladder narrows transformers whose layers have the same heads")


def _stages_of(program: Program) -> Sequence[Any]:
    """The stages that a program has, perhaps from what it extends."""
    above: Program | None = program
    while above is not None and not above.stages:
        above = above.base
    return above.stages if above else ()


def _narrow(
    program: Program, resolved: Resolved, shares: Sequence[float]
) -> list[tuple[Program, Resolved]]:
    """The programs with these shares of the width that there are, one of each width."""
    shape, rungs = resolved.encoder.settings(), []
    heads, full = shape["heads"], shape["hidden"]
    for fewer in sorted({max(1, round(share * heads)) for share in shares} - {heads}):
        width = fewer * shape["head_dim"]  # that of a head stays
        narrower = transfer(program, resolved, full, width).with_values(
            hidden=width, heads=fewer, ffn=_scaled(shape["ffn"], width / full),
            embedding=width if shape["embedding"] == full else min(width, shape["embedding"]),
        )  # fmt: skip
        try:
            rungs.append((narrower, points(narrower)[0]))
        except SpecError:  # of a width that its other settings have no room for
            continue
    return rungs


def transfer(program: Program, resolved: Resolved, full: int, width: int) -> Program:
    """The program with the first values and rates of width ``full`` made fit for another.

    First values grow with 1 / sqrt(width), and so does the rate of Adam and Muon.
    """
    root, first = sqrt(full / width), resolved.encoder.initializer
    std = {"std": first.std * root} if hasattr(first, "std") else {}
    stages = [
        stage.with_settings(
            {
                name: replace(setting, value=_transferred(setting.value, root, resolved.steps))
                for name, setting in stage.settings.items()
                if name == "optimizer"
            }
        )
        for stage in _stages_of(program)
    ]
    changed = program.with_values(
        initializer=first.model_copy(update=std),
        optimizer=_transferred(resolved.stages[0].optimizer, root, resolved.steps),
    )
    return changed.having(changed.settings, tuple(stages))


def _scaled(ffn: int | tuple[int, ...], share: float) -> Any:
    """Inner widths in steps of 8."""
    if isinstance(ffn, tuple):
        return tuple(_scaled(width, share) for width in ffn)
    return max(8, 8 * round(ffn * share / 8))


def _transferred(rule: Any, root: float, steps: int) -> Any:
    """A rule whose rate fits another width, and whose counts are shares of all ``steps``."""
    new = {"lr": rule.lr * root} if rule.kind in BY_ROOT else {}
    if isinstance(rule.warmup, int):
        new["warmup"] = rule.warmup / steps
    if isinstance(getattr(rule.schedule, "decay", None), int):
        new["schedule"] = rule.schedule.model_copy(update={"decay": rule.schedule.decay / steps})
    return rule.model_copy(update=new)


def _shortened(program: Program, resolved: Resolved, steps: int, seconds: float) -> Planned:
    """A program with fewer steps, spread over its stages as they were, evaluated at the end."""
    by_name = Counter[str]()
    for stage in resolved.stages:
        by_name[stage.name] += stage.steps
    of_stages = {name: max(1, round(n * steps / resolved.steps)) for name, n in by_name.items()}
    total = sum(of_stages.values())
    shorter = program.with_values(steps=next(iter(of_stages.values())), eval_every=total)
    stages = [
        stage.with_settings(
            {"steps": replace(shorter.settings["steps"], value=of_stages[stage.name])}
        )
        for stage in _stages_of(program)
    ]
    shorter = shorter.having(shorter.settings, tuple(stages))
    (planned,) = points(shorter)
    width = planned.encoder.hidden
    return Planned(f"w{width}-s{total}", shorter, planned, seconds)
