"""Targets of pruning, made shares: how much has to go for a size, FLOPs or milliseconds.

The network left by one share after another is estimated, and the smallest that will do is taken.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from bertc.compress.prune import expected, with_layers
from bertc.diagnostics import Diagnostics
from bertc.estimate.flops import executed_flops
from bertc.estimate.latency.cases import Shape
from bertc.estimate.latency.predicted import text_seconds
from bertc.estimate.parameters import count
from bertc.estimate.units import count_text, duration_text, flops_text
from bertc.ir.changing.pruning import NOTHING, Layers, Pruning, Units, units
from bertc.ir.changing.targets import ByShare, Target, ToFlops, ToLatency, ToParameters
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Given, Program
from bertc.passes import assemble, complete
from bertc.passes.settings.fixes import fix_argument


def aimed(program: Program, diagnostics: Diagnostics) -> Program:
    """The program with a share for each target; those out of reach are reported.

    ``prune=heads(to=params(100M))`` removes as few heads as leave 100 million parameters. A target
    of the whole run is that of its first stage.
    """
    own = [stage.settings for stage in program.stages] or [{}]
    for place, settings in enumerate(own):
        given = settings.get("prune") or (None if place else program.settings.get("prune"))
        if given and isinstance(given.value, Units | Layers) and given.value.to != ByShare():
            program = _aimed(program, place, settings, given, diagnostics)
    return program


def _aimed(
    program: Program, place: int, own: Mapping[str, Given], given: Given, diagnostics: Diagnostics
) -> Program:
    """The program with the share of one stage; without pruning where it has other mistakes."""

    def with_kind(kind: Pruning) -> Program:
        found = {"prune": replace(given, value=kind)}
        if "prune" not in own:
            return program.with_settings(found)
        stage = replace(program.stages[place], settings={**own, **found})
        return replace(
            program, stages=(*program.stages[:place], stage, *program.stages[place + 1 :])
        )

    findings = Diagnostics()
    finished = complete(with_kind(NOTHING), findings)
    if findings.found:
        return with_kind(NOTHING)
    whole, target = assemble(finished), given.value.to
    encoder = whole.stages[place].encoder
    assert isinstance(encoder, Encoder), "the checks allow pruning of transformers alone"
    kind, total, most = _counted(given.value, encoder)

    def figure(share: float) -> float:
        return _figure(whole, place, kind.model_copy(update={"aimed": share}))

    before = _figure(whole, place, kind)
    wanted = target.most * (before if _is_share(target) else 1)
    shares = [number / total for number in range(1, most + 1)]
    at = bisect_left(shares, -wanted, key=lambda share: -figure(share))
    if before <= wanted or at == len(shares):
        lowest = figure(shares[-1]) if shares else before
        _out_of_reach(given, target, before, lowest, diagnostics)
        return with_kind(NOTHING)
    diagnostics.remark(
        "R115",
        f"{at + 1:,} of {total:,} {kind.kind} go: {_shown(target, before)} before, "
        f"{_shown(target, figure(shares[at]))} after",
        given.origin.span,
    )
    return with_kind(given.value.model_copy(update={"aimed": shares[at]}))


def _counted(kind: Units | Layers, encoder: Encoder) -> tuple[Units | Layers, int, int]:
    """The kind with what it knows of the network, how many there are, and how many can go."""
    if isinstance(kind, Layers):
        kind = kind.model_copy(update={"depth": encoder.depth})
        return kind, encoder.depth, kind.most
    counts = units(encoder, kind.part).values()
    return kind, sum(counts), sum(counts) - len(counts)


def _figure(whole: Resolved, place: int, kind: Units | Layers) -> float:
    """The figure that a target limits, for the network after a stage."""
    *before, stage = whole.stages[: place + 1]
    encoder = stage.encoder
    if isinstance(kind, Units):
        stage = stage.model_copy(update={"prune": kind if kind.aimed else NOTHING})
    elif kind.aimed and isinstance(encoder, Encoder):
        stage = stage.model_copy(update={"encoder": with_layers(encoder, kind.kept)})
    until = whole.model_copy(update={"stages": (*before, stage)})
    left, target = (expected(until) or until).stages[-1], kind.to
    match target:
        case ToParameters():
            return count(left, whole.terms()).total
        case ToFlops():
            return executed_flops(left, 1).forward
        case ToLatency():
            return text_seconds(left, Shape(target.batch, target.length), target.threads)
        case ByShare():
            raise ValueError("a share counts nothing")
        case unreachable:
            assert_never(unreachable)


def _is_share(target: Target) -> bool:
    return isinstance(target, ToParameters | ToFlops) and isinstance(target.most, float)


def _shown(target: Target, figure: float) -> str:
    match target:
        case ToParameters():
            return f"{count_text(figure)} parameters"
        case ToFlops():
            return f"{flops_text(figure)} a full row"
        case ToLatency():
            return f"{duration_text(figure)} a text"
        case ByShare():
            return f"{figure:.0%}"
        case unreachable:
            assert_never(unreachable)


def _out_of_reach(
    given: Given, target: Target, before: float, lowest: float, diagnostics: Diagnostics
) -> None:
    """Report a target that nothing has to go for, or that all that can go does not reach."""
    between = (before + lowest) / 2
    text = f"{1000 * between:.6g}ms" if isinstance(target, ToLatency) else str(round(between))
    if _is_share(target):
        text = f"{100 * between / before:.4g}%"
    diagnostics.error(
        "E337",
        f"prune = {given.value.kind} does not reach its target: the network has "
        f"{_shown(target, before)} before, and at least {_shown(target, lowest)} after",
        given.origin.span,
        label="a target between the two can be reached",
        help=f"to={target.kind}({text})",
        fix=fix_argument(given.origin, ("to",), "most", text),
    )
