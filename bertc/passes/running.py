"""Checks of streams of text and of memory."""

from bertc.diagnostics import Diagnostics
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.network.attention_node import AttentionNode
from bertc.ir.program.complete import StageSettings
from bertc.passes.settings.fixes import fix, fix_settings, note, written
from bertc.passes.settings.stages import asks_about_pairs, has_tasks

SHORTEST_PAIR = 5
"""Minimum tokens of two segments: one each, a separator after each, and [CLS]."""


def check_running(stage: StageSettings, diagnostics: Diagnostics) -> None:
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
    if running and (stage.translation_term or stage.mixing.kind == "batches"):
        reader = stage.translation_term
        what = f"{reader} reads pairs" if reader else "mixing = batches changes the language"
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
    if asks_about_pairs(stage.objective) or stage.translation_term:
        return "memory=0"
    if near_alone and "memory" in stage.own:
        return "memory=0"  # a stage cannot set attention
    placed = stage.origins["positions"].kind != "derived" and stage.positions.kind != "none"
    others = [
        "pack=false" * stage.pack,
        "format=stream" * (stage.format.kind not in RUNNING),
        _relative(stage) * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    return " ".join(filter(None, others))


def _relative(stage: StageSettings) -> str:
    """Relative attention: the one that a written attention replaced, if it was such a one."""
    replaced = stage.origins["attention"].replaced
    # The attention of an `init` has the origin of that, which may have replaced another `init`.
    attention = replaced.value if replaced else None
    if not isinstance(attention, AttentionNode) or not attention.knows_directions:
        return "attention=relative"
    span = replaced.origin.span if replaced else None
    return "".join(span.text.split()) if span else "attention=relative"


def _pair_possible(stage: StageSettings, rows: StreamPair, diagnostics: Diagnostics) -> None:
    seq, origin = stage.seq, stage.origins["format"]
    reused, rest = rows.parts(seq)
    if rest < SHORTEST_PAIR:
        half = max(1, min(seq // 2, seq - SHORTEST_PAIR))
        diagnostics.error(
            "E224",
            f"rows of {seq} tokens, {reused} of them reused, have no room for two segments",
            stage.span("format") or stage.span("seq"),
            label=f"{max(rest, 0)} are left, at least {SHORTEST_PAIR} are needed",
            notes=note(f"seq = {seq}", stage.span("seq")),
            help=_spelt(half, rows.both_ways),
            fix=fix(origin, _spelt(half, rows.both_ways)),
        )
    in_stage, relative = "format" in stage.own, _relative(stage)
    if stage.positions.in_attention:
        relative = f"{relative} positions=none"
    if rows.both_ways and not stage.attention.knows_directions:
        diagnostics.error(
            "E225",
            f"both_ways=true needs relative attention, but attention = {stage.attention.kind}",
            stage.span("format"),
            label="distances are negated in reversed rows",
            notes=note("attention is set here", stage.span("attention")),
            help=_spelt(rows.reuse, False) if in_stage else relative,
            fix=fix(origin, _spelt(rows.reuse, False))
            if in_stage
            else fix_settings(stage, origin, relative),
        )
    ahead = next((term.name for term in stage.objective if term.objective.order == "none"), "")
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
