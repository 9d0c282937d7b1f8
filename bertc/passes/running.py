"""Checks of rows that read on from batch to batch, and of what they remember."""

from bertc.diagnostics import Diagnostics
from bertc.ir.data import RUNNING, StreamPair
from bertc.ir.program.complete import StageSettings
from bertc.passes.fixes import fix, fix_settings, note, written
from bertc.passes.stages import asks_about_pairs, has_tasks

SHORTEST = 5
"""Tokens of two segments at least: one of each, a separator after each, and [CLS]."""


def check_running(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report memories and streams that cannot be, and rows of a stream that cannot be read."""
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
            f"{rows} rows do not go on where others ended, and memory = {memory}",
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
            f"memory = {memory}, and attention = full does not know how far a token stands back",
            stage.span("memory"),
            label="remembered tokens would share their places with those of the row",
            notes=note("attention is set here", stage.span("attention")),
            help=instead,
            fix=fix_settings(stage, stage.origins["memory"], instead),
        )
    if memory:
        _one_place(stage, diagnostics)
    if running and (stage.translates or stage.mixing.kind == "batches"):
        what = "tlm reads pairs" if stage.translates else "mixing = batches draws whole batches"
        diagnostics.error(
            "E221",
            f"{what}, and rows of a stream read on in their own text",
            stage.span("format") or stage.span("objective"),
            help="format=full-sentences",
            fix=fix(stage.origins["format"], "format=full-sentences"),
        )
    if isinstance(stage.format, StreamPair):
        _pair_possible(stage, stage.format, diagnostics)


def _one_place(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Distances alone say where remembered tokens stand."""
    memory, positions = stage.memory, stage.origins["positions"]
    if not stage.attention.knows_distances or stage.positions.kind == "none":
        return
    diagnostics.error(
        "E227",
        f"memory = {memory}, and positions = {stage.positions.kind} count from 0 in every row",
        stage.span("memory"),
        label="remembered tokens bring the places of their own row along",
        notes=note("positions are set here", positions.span),
        help="memory=0" if "memory" in stage.own else "positions=none",
        fix=fix(positions, "positions=none") or fix(stage.origins["memory"], "memory=0"),
    )


def _reading_on(stage: StageSettings, near_alone: bool) -> str:
    """What to write so that rows may remember, or that they do not where nothing else will do."""
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
            f"rows of {seq} tokens that go on after {reused} have no room for two segments",
            stage.span("format") or stage.span("seq"),
            label=f"{max(rest, 0)} are left, and it takes {SHORTEST} at least",
            notes=note(f"seq = {seq}", stage.span("seq")),
            help=_spelt(half, rows.both_ways),
            fix=fix(origin, _spelt(half, rows.both_ways)),
        )
    own = "format" in stage.own
    if rows.both_ways and not stage.attention.knows_directions:
        diagnostics.error(
            "E225",
            "rows are read both ways, and attention = full does not know how far tokens stand",
            stage.span("format"),
            label="text that runs backward has its distances turned round",
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
            f"{ahead} asks the next row for tokens that those in memory have seen",
            stage.span("memory"),
            label="A begins with what the next row reads there",
            notes=note(f"format = {rows.kind}", stage.span("format")),
            help="objective=plm or memory=0",
            fix=fix(stage.origins["memory"], "memory=0"),
        )


def _spelt(reuse: int, both_ways: bool) -> str:
    both = ", both_ways=true" if both_ways else ""
    return f"format=stream-pair(reuse={reuse}{both})"
