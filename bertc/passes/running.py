"""Checks of streams of text, of memory, and of permutations."""

import math

from bertc.diagnostics import Diagnostics
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.learning.objective import Objective, Plm
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.pairs import PairTerm
from bertc.passes.fixes import argument, fix, fix_settings, note, terms_written, written
from bertc.passes.stages import asks_about_pairs, has_tasks
from bertc.planning.plan import largest_divisor

SHORTEST = 5
"""Minimum tokens of two segments: one each, a separator after each, and [CLS]."""


def check_rows(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report rows that cannot be read as a stage asks."""
    _check_running(stage, diagnostics)
    _check_order(stage, diagnostics)


def _check_running(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report impossible memories and streams, and rows that cannot be part of a stream."""
    if has_tasks(stage.objective):
        return  # their rows are examples
    running, memory = stage.format.kind in RUNNING, stage.memory
    near_alone = not stage.attention.knows_distances
    instead = _reading_on(stage, near_alone)
    packed = bool(stage.pack) and not written(stage.origins["format"])
    if memory and not running:
        rows = "packed" if packed else stage.format.kind
        diagnostics.error(
            "E219",
            f"memory = {memory} needs rows that continue the row before, which {rows} rows do not",
            stage.span("memory"),
            notes=note("pack = true", stage.span("pack"))
            if packed
            else note(f"format = {stage.format.kind}", stage.span("format")),
            help=instead,
            fix=fix_settings(stage, stage.origins["memory"], instead),
        )
    if memory and near_alone:
        diagnostics.error(
            "E222",
            f"memory = {memory} needs relative attention, but attention = {stage.attention.kind}",
            stage.span("memory"),
            label="tokens in memory would have the positions of the row's own",
            notes=note("attention is set here", stage.span("attention")),
            help=instead,
            fix=fix_settings(stage, stage.origins["memory"], instead),
        )
    if memory:
        _one_place(stage, diagnostics)
    if running and (stage.translates or stage.mixing.kind == "batches"):
        what = "tlm reads pairs" if stage.translates else "mixing = batches changes the language"
        diagnostics.error(
            "E221",
            f"{what}, but rows of a stream continue their own text",
            stage.span("format") or stage.span("objective"),
            help="format=full-sentences",
            fix=fix(stage.origins["format"], "format=full-sentences"),
        )
    if isinstance(stage.format, StreamPair):
        _pair_possible(stage, stage.format, diagnostics)


def _one_place(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report position embeddings together with memory."""
    positions = stage.origins["positions"]
    if not stage.attention.knows_distances or stage.positions.kind == "none":
        return
    diagnostics.error(
        "E227",
        f"memory contradicts positions = {stage.positions.kind}, which count from 0 in every row",
        stage.span("memory"),
        label="tokens in memory carry the positions of their own row",
        notes=note("positions are set here", positions.span),
        help="memory=0" if "memory" in stage.own else "positions=none",
        fix=fix(positions, "positions=none") or fix(stage.origins["memory"], "memory=0"),
    )


def _reading_on(stage: StageSettings, near_alone: bool) -> str:
    """Settings that make memory possible, or memory=0 where none do."""
    if asks_about_pairs(stage.objective) or stage.translates:
        return "memory=0"
    if near_alone and "memory" in stage.own:
        return "memory=0"  # a stage cannot set attention
    placed = stage.origins["positions"].kind != "derived" and stage.positions.kind != "none"
    others = [
        "pack=false" * stage.pack,
        "format=stream" * (stage.format.kind not in RUNNING),
        "attention=relative" * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    return " ".join(filter(None, others))


def _pair_possible(stage: StageSettings, rows: StreamPair, diagnostics: Diagnostics) -> None:
    seq, origin = stage.seq, stage.origins["format"]
    reused, rest = rows.parts(seq)
    if rest < SHORTEST:
        half = max(1, min(seq // 2, seq - SHORTEST))
        diagnostics.error(
            "E224",
            f"rows of {seq} tokens, {reused} of them reused, have no room for two segments",
            stage.span("format") or stage.span("seq"),
            label=f"{max(rest, 0)} are left, at least {SHORTEST} are needed",
            notes=note(f"seq = {seq}", stage.span("seq")),
            help=_spelt(half, rows.both_ways),
            fix=fix(origin, _spelt(half, rows.both_ways)),
        )
    own = "format" in stage.own
    if rows.both_ways and not stage.attention.knows_directions:
        diagnostics.error(
            "E225",
            f"both_ways=true needs relative attention, but attention = {stage.attention.kind}",
            stage.span("format"),
            label="distances are negated in reversed rows",
            notes=note("attention is set here", stage.span("attention")),
            help=_spelt(rows.reuse, False) if own else "attention=relative",
            fix=fix(origin, _spelt(rows.reuse, False))
            if own
            else fix_settings(stage, origin, "attention=relative"),
        )
    kinds = [term.objective.kind for term in stage.objective]
    ahead = next((kind for kind in kinds if kind not in ("plm", "clm")), None)
    if stage.memory and ahead:
        diagnostics.error(
            "E226",
            f"memory contains the answers of {ahead}: tokens that the next row predicts",
            stage.span("memory"),
            label="this row's first segment is read again in the next",
            notes=note(f"format = {rows.kind}", stage.span("format")),
            help="objective=plm or memory=0",
            fix=fix(stage.origins["memory"], "memory=0"),
        )


def _spelt(reuse: int, both_ways: bool) -> str:
    both = ", both_ways=true" if both_ways else ""
    return f"format=stream-pair(reuse={reuse}{both})"


def _check_order(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report terms that change plm's rows, and blocks that do not divide them."""
    terms, span, seq = stage.objective, stage.span("objective"), stage.seq
    found = next((t.objective for t in terms if isinstance(t.objective, Plm)), None)
    if found is None:
        return
    others = [t.objective.kind for t in terms if not isinstance(t.objective, Plm | PairTerm)]
    generates = stage.generator.kind != "none"
    if others:
        diagnostics.error(
            "E250",
            f"plm needs unchanged rows, which {others[0]} does not allow",
            span,
            label="the other term may have a stage of its own",
            help=f"objective={_as_written(stage, found)}" + " generator=none" * generates,
        )
    part = next((p for p in stage.parts if 0 < found.block < p and p % found.block), None)
    if part is not None:
        near = largest_divisor(math.gcd(*stage.parts), found.block)
        rows = f"rows of {seq}" if part == seq else f"parts of {part}"
        place = (next(i for i, t in enumerate(terms) if t.objective == found), "objective")
        diagnostics.error(
            "E251",
            f"block = {found.block} does not divide {rows} tokens",
            span,
            notes=note(f"seq = {seq}", stage.span("seq")),
            label="without block the whole row is permuted",
            **argument("objective", stage.origins["objective"], "block", str(near), place),
        )


def _as_written(stage: StageSettings, wanted: Objective) -> str:
    """A term of the objective as written; its kind alone if the objective is not written."""
    terms = stage.objective
    own = terms_written(stage.origins["objective"], lambda i: terms[i].objective == wanted)
    return own or wanted.kind
