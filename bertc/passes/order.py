"""Checks of the order in which text is read: rows that go on, memories, permutations."""

from bertc.diagnostics import Diagnostics
from bertc.ir.objective import Nsp, Objective, Plm, Sop
from bertc.passes.fixes import fix, fix_argument, note, terms_written, written
from bertc.passes.plan import largest_divisor
from bertc.passes.stages import StageView


def check_order(stage: StageView, diagnostics: Diagnostics) -> None:
    """Report a memory of rows that do not go on, and a permutation that cannot be."""
    _stream_possible(stage, diagnostics)
    _order_possible(stage, diagnostics)


def _stream_possible(stage: StageView, diagnostics: Diagnostics) -> None:
    running, memory = stage.format.kind == "stream", stage.value("memory")
    attention = stage.program.settings["attention"]
    near_alone = attention.value.kind == "full"
    wanted = f"memory={memory}"
    if not running and not written(stage.given("format")):
        wanted += " format=stream"
    if near_alone and not written(attention):
        wanted += " attention=relative"
    if near_alone and "memory" in stage.own:
        wanted = "memory=0"  # a stage cannot set attention
    if memory and not running:
        diagnostics.error(
            "E219",
            f"{stage.format.kind} rows do not go on where others ended, and memory = {memory}",
            stage.span("memory"),
            notes=note(f"format = {stage.format.kind}", stage.span("format")),
            help="format=stream" + " attention=relative" * near_alone,
            fix=fix(stage.given("format"), "format=stream") or fix(stage.given("memory"), wanted),
        )
    if memory and near_alone:
        diagnostics.error(
            "E222",
            f"memory = {memory}, and attention = full does not know how far a token stands back",
            stage.span("memory"),
            label="remembered tokens would share their places with those of the row",
            notes=note("attention is set here", attention.origin.span),
            help="attention=relative",
            fix=fix(attention, "attention=relative") or fix(stage.given("memory"), wanted),
        )
    if running and (stage.translates or stage.value("mixing") == "batches"):
        what = "tlm reads pairs" if stage.translates else "mixing = batches draws whole batches"
        diagnostics.error(
            "E221",
            f"{what}, and rows of a stream read on in their own text",
            stage.span("format") or stage.span("objective"),
            help="format=full-sentences",
            fix=fix(stage.given("format"), "format=full-sentences"),
        )


def _order_possible(stage: StageView, diagnostics: Diagnostics) -> None:
    """A permutation is of the row as it stands, in blocks that fill it."""
    terms, span, seq = stage.value("objective"), stage.span("objective"), stage.value("seq")
    found = next((t.objective for t in terms if isinstance(t.objective, Plm)), None)
    if found is None:
        return
    others = [t.objective.kind for t in terms if not isinstance(t.objective, Plm | Nsp | Sop)]
    if others:
        diagnostics.error(
            "E250",
            f"plm reads rows as they stand, and {others[0]} reads something else",
            span,
            label="a row is read in one way only",
            help=f"objective={_as_written(stage, found)}, or a stage for each",
        )
    if 0 < found.block < seq and seq % found.block:
        near = largest_divisor(seq, found.block)
        place = (next(i for i, t in enumerate(terms) if t.objective == found), "objective")
        diagnostics.error(
            "E251",
            f"rows of {seq} tokens are no number of blocks of {found.block}",
            span,
            notes=note(f"seq = {seq}", stage.span("seq")),
            help=f"block={near}, or no block for one permutation of a row",
            fix=fix_argument(stage.given("objective"), place, "block", str(near)),
        )


def _as_written(stage: StageView, wanted: Objective) -> str:
    """A term of the objective with its arguments, by its kind alone where none are written."""
    terms = stage.value("objective")
    own = terms_written(stage.given("objective"), lambda i: terms[i].objective == wanted)
    return own or wanted.kind
