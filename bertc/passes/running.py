"""Checks of rows that read on from batch to batch, and of what they remember."""

from bertc.diagnostics import Diagnostics
from bertc.ir.data import RUNNING, StreamPair
from bertc.passes.fixes import fix, fix_settings, note, written
from bertc.passes.stages import StageView, asks_about_pairs, has_tasks

SHORTEST = 5
"""Tokens of two segments at least: one of each, a separator after each, and [CLS]."""


def check_running(stage: StageView, diagnostics: Diagnostics) -> None:
    """Report memories and streams that cannot be, and rows of a stream that cannot be read."""
    if has_tasks(stage.value("objective")):
        return  # their rows are examples
    running, memory = stage.format.kind in RUNNING, stage.value("memory")
    attention = stage.program.settings["attention"]
    near_alone = not attention.value.knows_distances
    instead = _reading_on(stage, near_alone)
    packed = bool(stage.value("pack")) and not written(stage.given("format"))
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
            fix=fix_settings(stage, stage.given("memory"), instead),
        )
    if memory and near_alone:
        diagnostics.error(
            "E222",
            f"memory = {memory}, and attention = full does not know how far a token stands back",
            stage.span("memory"),
            label="remembered tokens would share their places with those of the row",
            notes=note("attention is set here", attention.origin.span),
            help=instead,
            fix=fix_settings(stage, stage.given("memory"), instead),
        )
    if memory:
        _one_place(stage, diagnostics)
    if running and (stage.translates or stage.value("mixing").kind == "batches"):
        what = "tlm reads pairs" if stage.translates else "mixing = batches draws whole batches"
        diagnostics.error(
            "E221",
            f"{what}, and rows of a stream read on in their own text",
            stage.span("format") or stage.span("objective"),
            help="format=full-sentences",
            fix=fix(stage.given("format"), "format=full-sentences"),
        )
    if isinstance(stage.format, StreamPair):
        _pair_possible(stage, stage.format, diagnostics)


def _one_place(stage: StageView, diagnostics: Diagnostics) -> None:
    """Distances alone say where remembered tokens stand."""
    memory, settings = stage.value("memory"), stage.program.settings
    attention, positions = settings["attention"].value, settings["positions"]
    if not attention.knows_distances or positions.value.kind == "none":
        return
    diagnostics.error(
        "E227",
        f"memory = {memory}, and positions = {positions.value.kind} count from 0 in every row",
        stage.span("memory"),
        label="remembered tokens bring the places of their own row along",
        notes=note("positions are set here", positions.origin.span),
        help="memory=0" if "memory" in stage.own else "positions=none",
        fix=fix(positions, "positions=none") or fix(stage.given("memory"), "memory=0"),
    )


def _reading_on(stage: StageView, near_alone: bool) -> str:
    """What to write so that rows may remember, or that they do not where nothing else will do."""
    if asks_about_pairs(stage.value("objective")) or stage.translates:
        return "memory=0"
    if near_alone and "memory" in stage.own:
        return "memory=0"  # a stage cannot set attention
    positions = stage.program.settings["positions"]
    placed = positions.origin.kind != "derived" and positions.value.kind != "none"
    others = [
        "pack=false" * stage.value("pack"),
        "format=stream" * (stage.format.kind not in RUNNING),
        "attention=relative" * near_alone,
        "positions=none" * (near_alone and placed),
    ]
    return " ".join(filter(None, others))


def _pair_possible(stage: StageView, rows: StreamPair, diagnostics: Diagnostics) -> None:
    seq, given = stage.value("seq"), stage.given("format")
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
            fix=fix(given, _spelt(half, rows.both_ways)),
        )
    attention, own = stage.program.settings["attention"], "format" in stage.own
    if rows.both_ways and not attention.value.knows_directions:
        diagnostics.error(
            "E225",
            "rows are read both ways, and attention = full does not know how far tokens stand",
            stage.span("format"),
            label="text that runs backward has its distances turned round",
            notes=note("attention is set here", attention.origin.span),
            help=_spelt(rows.reuse, False) if own else "attention=relative",
            fix=fix(given, _spelt(rows.reuse, False))
            if own
            else fix_settings(stage, given, "attention=relative"),
        )
    kinds = [term.objective.kind for term in stage.value("objective")]
    ahead = next((kind for kind in kinds if kind not in ("plm", "clm")), None)
    if stage.value("memory") and ahead:
        diagnostics.error(
            "E226",
            f"{ahead} asks the next row for tokens that those in memory have seen",
            stage.span("memory"),
            label="A begins with what the next row reads there",
            notes=note(f"format = {rows.kind}", stage.span("format")),
            help="objective=plm or memory=0",
            fix=fix(stage.given("memory"), "memory=0"),
        )


def _spelt(reuse: int, both_ways: bool) -> str:
    both = ", both_ways=true" if both_ways else ""
    return f"format=stream-pair(reuse={reuse}{both})"
