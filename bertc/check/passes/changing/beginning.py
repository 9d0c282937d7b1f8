"""Checks of what a run begins with: layers of another network or the teacher, word vectors."""

from bertc.base.diagnostics import DataError, Diagnostics
from bertc.base.storage.paths import is_file, user_path
from bertc.ir.base import call_text
from bertc.ir.changing.growth import TEACHER, FromLayers, FromOther, FromVectors, vector_file
from bertc.ir.fixes import note
from bertc.ir.network.table import AdaptiveTable
from bertc.ir.program.complete import Complete
from bertc.ir.program.teacher import NoTeacher


def begins(program: Complete, diagnostics: Diagnostics) -> None:
    """Report layers of another network that cannot be those of the first stage.

    ``layers=3 init=layers("bert", [0, 1])`` is E268: two layers do not make three.
    """
    init, first = program.init, program.stages[0]
    if not isinstance(init, FromOther):
        return
    if not init.same_tokens and isinstance(first.table, AdaptiveTable):
        diagnostics.error(
            "E413",
            "rows of a table in clusters cannot be carried to other tokens",
            program.span("vocab"),
            notes=note(f"table = {first.table.kind}(...)", first.span("table")),
            help="leave vocab out: init has its own",
        )
    named = ('"runs/bert"', "first") if isinstance(init, FromLayers) else ('"runs/bert"',)
    if init.path == TEACHER and isinstance(first.teacher[0].source, NoTeacher):
        diagnostics.error(
            "E267",
            f"init takes {init.kind} of the teacher, and there is none",
            program.span("init"),
            help=f"name a run or a model folder, as in init={call_text(init.kind, *named)}",
        )
    elif isinstance(init, FromLayers) and (problem := init.misfit(init.depth, first.layers)):
        fitting = init.instead(init.depth, first.layers)
        path = TEACHER if init.path == TEACHER else f'"{init.path}"'
        as_deep = f"init={call_text('layers', path, fitting)}"
        diagnostics.error(
            "E268",
            problem,
            program.span("init"),
            notes=note(f"layers = {first.layers}", first.span("layers")),
            help=as_deep if fitting else f"layers={init.depth or len(init.layers)}",
        )


def vectors(program: Complete, diagnostics: Diagnostics) -> None:
    """Report word vectors that are no vectors, or of another width than the token table."""
    init, span = program.init, program.span("init")
    name = vector_file(init)
    if not name or not is_file(user_path(name)):
        return
    from bertc.text.vocab.static_vectors import (
        vectors_width,  # numpy, which no other spec needs here
    )

    try:
        width = vectors_width(name)
    except DataError as error:
        diagnostics.error("E401", error.message, span, help=error.help)
        return
    if isinstance(init, FromVectors) and width != program.embedding:
        diagnostics.error(
            "E400",
            f"{init.path} has {width:,} numbers for a word, and the token table "
            f"{program.embedding:,}",
            span,
            notes=note("embedding is set here", program.span("embedding")),
            help=f"embedding={width}",
        )
