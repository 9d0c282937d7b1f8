"""The files that a spec names: whether they are there, and are text."""

from collections.abc import Callable, Iterator

from bertc.base.diagnostics import Diagnostics, Fix, Span
from bertc.base.storage.endings import NO_TEXT, no_text, suffix
from bertc.base.storage.missing import no_file, no_folder, no_match
from bertc.base.storage.paths import files_matching, is_folder, user_path
from bertc.check.passes.vocabulary import nowhere_to_begin
from bertc.ir.changing.growth import TEACHER, FromOther, FromVectors
from bertc.ir.data import named_files
from bertc.ir.learning.augmentation import ReplacedCopies
from bertc.ir.program.complete import Complete


def missing_inputs(program: Complete, diagnostics: Diagnostics) -> None:
    """Report missing files, those whose names say they are no text, and a missing init."""
    init, known = program.init, {diagnostic.code for diagnostic in diagnostics.found}
    begins = init if isinstance(init, FromOther) and init.path != TEACHER else None
    if begins and not is_folder(begins.path) and "E265" not in known:
        nowhere_to_begin(begins, program.span("init"), diagnostics)
    reported = {(diagnostic.message, diagnostic.span) for diagnostic in diagnostics.found}
    for missing, name, span in _beside_text(program):
        if (wrong := missing(name)) and (wrong[0], span) not in reported:
            reported.add((wrong[0], span))
            diagnostics.error("E307", wrong[0], span, help=wrong[1])
    for stage in program.stages:
        origin = stage.origins["data"]
        for index, share in enumerate(stage.data):
            for name, argument in named_files(share.corpus):
                span = origin.parts.get((index, "corpus", argument), origin.span)
                paths = files_matching(name)
                if (first := next(paths, None)) is None:
                    _missing(name, span, diagnostics, reported)
                    continue
                unreadable = next(
                    (path for path in (first, *paths) if suffix(path) in NO_TEXT), None
                )
                if unreadable is not None:
                    message, help = no_text(unreadable)
                    diagnostics.error("E308", message, span, help=help)


_Missing = Callable[[str], tuple[str, str] | None]
"""Message and help if there is no such file or folder."""


def _beside_text(program: Complete) -> Iterator[tuple[_Missing, str, Span | None]]:
    """Initial vectors, and folders and files for copies of examples."""
    if isinstance(program.init, FromVectors):
        yield no_file, program.init.path, program.span("init")
    for stage in program.stages:
        for source in stage.augment:
            if isinstance(source.copies, ReplacedCopies):
                yield no_folder, source.copies.model, stage.span("augment")
                if source.copies.vectors:
                    yield no_file, source.copies.vectors, stage.span("augment")


def _missing(
    name: str, span: Span | None, diagnostics: Diagnostics, reported: set[tuple[str, Span | None]]
) -> None:
    message, help = no_match(name)
    if (message, span) not in reported:
        reported.add((message, span))
        pattern = f'"{name.rstrip("/")}/**/*.txt"'
        folder = span is not None and span.text[:1] in "\"'" and is_folder(user_path(name))
        fix = Fix(span, pattern) if folder and span else None
        diagnostics.error("E307", message, span, help=pattern if folder else help, fix=fix)
