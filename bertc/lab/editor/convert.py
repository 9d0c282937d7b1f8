"""Findings and suggestions as the protocol's values."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from lsprotocol import types
from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

from bertc.lab.editor.place import CursorPlace
from bertc.lab.editor.reading import Reading
from bertc.lab.editor.suggestions import Suggestion
from bertc.lab_api import Diagnostic, escaped, remedies

_LINE_END = re.compile(r"\r\n|\n|\r")


class TextLines:
    """The lines of a text."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self.codec = codec
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """The position of an offset."""
        line = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[line] : offset]
        # A character of ASCII is one unit, whichever the unit; the codec goes one by one.
        units = len(before) if before.isascii() else self.codec.client_num_units(before)
        return Position(line, units)

    def offset(self, position: Position) -> int:
        """The offset of a position; beyond the end of a line that end is meant."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[position.line]
        end = _LINE_END.search(self.text, start)
        stop = end.start() if end else len(self.text)
        units = 0
        for offset in range(start, stop):
            if units >= position.character:
                return offset
            units += self.codec.client_num_units(self.text[offset])
        return stop

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets."""
        return Range(self.position(start), self.position(end))


TOOL = "bertc"
FIRST_LINE = types.Range(types.Position(0, 0), types.Position(1, 0))
_SUGGESTIONS = {
    "setting": types.CompletionItemKind.Property, "argument": types.CompletionItemKind.Field,
    "block": types.CompletionItemKind.Keyword, "kind": types.CompletionItemKind.Class,
    "value": types.CompletionItemKind.EnumMember, "spec": types.CompletionItemKind.Module,
}  # fmt: skip


def diagnostics(reading: Reading, lines: TextLines) -> list[types.Diagnostic]:
    """The findings of ``check``, at the same places.

    A finding in a base is shown at ``extends``, with its own place; one in no text, such as a file
    that is missing, on the first line.
    """
    shown = [_diagnostic(finding, reading, lines) for finding in reading.findings]
    if reading.failure:
        help = f"\nhelp: {reading.failure.help}" * bool(reading.failure.help)
        message = _escape_lines(f"{reading.failure.message}{help}")
        shown.append(types.Diagnostic(FIRST_LINE, message, _severity("E"), source=TOOL))
    return shown


def _diagnostic(finding: Diagnostic, reading: Reading, lines: TextLines) -> types.Diagnostic:
    parts = [finding.message + (f": {finding.label}" if finding.label else "")]
    if finding.span is not None and not reading.has(finding):
        parts.append(f"in {finding.span}")
    parts += [
        f"note: {note.message}" + (f", at {note.span}" if note.span else "")
        for note in finding.notes
    ]
    parts += [f"help: {finding.help}"] * bool(finding.help)
    return types.Diagnostic(
        range_of(finding, reading, lines), _escape_lines("\n".join(parts)), _severity(finding.code),
        code=finding.code, source=TOOL,
    )  # fmt: skip


def _escape_lines(text: str) -> str:
    return "\n".join(map(escaped, text.split("\n")))


def range_of(finding: Diagnostic, reading: Reading, lines: TextLines) -> types.Range:
    """The range of a diagnostic in the text that is edited."""
    if finding.span and reading.has(finding):
        return lines.range(finding.span.start, finding.span.end)
    return lines.range(*reading.extends) if reading.extends else FIRST_LINE


def _severity(code: str) -> types.DiagnosticSeverity:
    remark = code.startswith("R")
    return types.DiagnosticSeverity.Warning if remark else types.DiagnosticSeverity.Error


def actions(
    reading: Reading, lines: TextLines, uri: str, within: types.Range
) -> Iterator[types.CodeAction]:
    """An action for each help about the lines of a range that is an edit of the text."""
    for finding in reading.findings:
        at = range_of(finding, reading, lines)
        if at.end.line < within.start.line or at.start.line > within.end.line:
            continue
        for index, remedy in enumerate(remedies(finding, reading.text)):
            edits = [
                types.TextEdit(lines.range(edit.span.start, edit.span.end), edit.replacement)
                for edit in remedy.edits
            ]
            yield types.CodeAction(
                escaped(remedy.title), types.CodeActionKind.QuickFix,
                diagnostics=[_diagnostic(finding, reading, lines)], is_preferred=not index,
                edit=types.WorkspaceEdit({uri: edits}),
            )  # fmt: skip


def completion(
    suggestion: Suggestion, number: int, place: CursorPlace, lines: TextLines
) -> types.CompletionItem:
    """A suggestion, in place of what is typed so far."""
    typed = types.Range(lines.position(place.start), lines.position(place.cursor))
    page = types.MarkupContent(types.MarkupKind.Markdown, suggestion.page)
    return types.CompletionItem(
        suggestion.text, kind=_SUGGESTIONS[suggestion.sort], detail=suggestion.detail or None,
        documentation=page if suggestion.page else None, sort_text=f"{number:04}",
        text_edit=types.TextEdit(typed, suggestion.insert),
    )  # fmt: skip
