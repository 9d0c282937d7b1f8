"""Word vectors that a network begins with."""

from bertc.base.diagnostics import DataError, Diagnostics
from bertc.base.storage.paths import is_file, user_path
from bertc.check.passes.settings.fixes import fix_settings, note
from bertc.ir.changing.growth import FromVectors
from bertc.ir.program.complete import Complete


def vectors(program: Complete, diagnostics: Diagnostics) -> None:
    """Report word vectors that are no vectors, or of another width than the token table.

    A file that is not there is told where its words are needed.
    """
    init, span = program.init, program.span("init")
    if not isinstance(init, FromVectors) or not is_file(user_path(init.path)):
        return
    from bertc.data.sources.vectors import vectors_width  # numpy, which no other spec needs here

    try:
        width = vectors_width(init.path)
    except DataError as error:
        diagnostics.error("E401", error.message, span, help=error.help)
        return
    if width != program.embedding:
        wider = f"embedding={width}"
        diagnostics.error(
            "E400",
            f"{init.path} has {width:,} numbers for a word, and the token table "
            f"{program.embedding:,}",
            span,
            notes=note("embedding is set here", program.span("embedding")),
            help=wider,
            fix=fix_settings(program, program.origins["init"], wider),
        )
