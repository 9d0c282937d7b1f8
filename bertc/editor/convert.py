"""Findings, suggestions and trees as the protocol's values."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lsprotocol import types

from bertc.diagnostics import Diagnostic, Fix, Note, Span
from bertc.diagnostics.render import escaped
from bertc.editor.lines import TextLines
from bertc.editor.place import CursorPlace
from bertc.editor.reading import Reading
from bertc.editor.suggestions import Suggestion
from bertc.syntax.helps import remedies
from bertc.syntax.read.tree import Block, Extends, Item

TOOL = "bertc"
_SUGGESTIONS = {
    "setting": types.CompletionItemKind.Property,
    "argument": types.CompletionItemKind.Field,
    "block": types.CompletionItemKind.Keyword,
    "kind": types.CompletionItemKind.Class,
    "value": types.CompletionItemKind.EnumMember,
    "spec": types.CompletionItemKind.Module,
    "file": types.CompletionItemKind.File,
}
LONGEST_DETAIL = 80


def diagnostics(reading: Reading, lines: TextLines, uri: str) -> list[types.Diagnostic]:
    """The findings of ``check``, at the same places.

    What is found in a base stands at ``extends``, with its own place beside it; what is found in
    no text, as a file that is not there, on the first line.
    """
    found = [_diagnostic(each, reading, lines, uri) for each in reading.findings]
    if reading.failure:
        help = f"\nhelp: {reading.failure.help}" * bool(reading.failure.help)
        message = escaped_lines(f"{reading.failure.message}{help}")
        found.append(types.Diagnostic(lines.line_of(0), message, _severity("E"), source=TOOL))
    return found


def _diagnostic(
    found: Diagnostic, reading: Reading, lines: TextLines, uri: str
) -> types.Diagnostic:
    message = found.message + (f": {found.label}" if found.label else "")
    elsewhere = found.span is not None and found.span.source != reading.source
    if elsewhere:
        message += f"\nin {found.span}"
    unplaced = [note for note in found.notes if _location(note.span, reading, lines, uri) is None]
    parts = [message, *(f"note: {_placed_note(note)}" for note in unplaced)]
    parts += [f"help: {found.help}"] * bool(found.help)
    notes = [*found.notes, *([Note(found.message, found.span)] if elsewhere else [])]
    related = [
        types.DiagnosticRelatedInformation(place, escaped(note.message))
        for note in notes
        if (place := _location(note.span, reading, lines, uri))
    ]
    return types.Diagnostic(
        shown_at(found, reading, lines),
        escaped_lines("\n".join(parts)),
        _severity(found.code),
        code=found.code,
        source=TOOL,
        related_information=related or None,
    )


def escaped_lines(text: str) -> str:
    """A text of several lines, each safe to show."""
    return "\n".join(map(escaped, text.split("\n")))


def shown_at(found: Diagnostic, reading: Reading, lines: TextLines) -> types.Range:
    """The range of a diagnostic in the text that is edited."""
    if found.span and found.span.source == reading.source:
        return lines.range(found.span)
    return lines.range(reading.extends.span) if reading.extends else lines.line_of(0)


def _placed_note(note: Note) -> str:
    return note.message + (f", at {note.span}" if note.span else "")


def _severity(code: str) -> types.DiagnosticSeverity:
    remark = code.startswith("R")
    return types.DiagnosticSeverity.Warning if remark else types.DiagnosticSeverity.Error


def _location(
    span: Span | None, reading: Reading, lines: TextLines, uri: str
) -> types.Location | None:
    """The location of a span in the text or in one of its bases."""
    if span is None:
        return None
    if span.source == reading.source:
        return types.Location(uri, lines.range(span))
    for base, tree in reading.bases:
        if tree.source == span.source and base.path:
            return location(base.path, span, lines)
    return None


def location(path: Path, span: Span, lines: TextLines) -> types.Location:
    """The location of a span in a file."""
    inside = TextLines(span.source.text, lines.codec)
    return types.Location(path.absolute().as_uri(), inside.range(span))


def edits(fixes: Sequence[Fix], lines: TextLines) -> list[types.TextEdit]:
    """The edits of a text."""
    return [types.TextEdit(lines.range(fix.span), fix.replacement) for fix in fixes]


def actions(
    reading: Reading, lines: TextLines, uri: str, within: types.Range
) -> Iterator[types.CodeAction]:
    """An action for each help about the lines of a range that is an edit of the text."""
    for found in reading.findings:
        at = shown_at(found, reading, lines)
        if at.end.line < within.start.line or at.start.line > within.end.line:
            continue
        for index, remedy in enumerate(remedies(found, reading.source)):
            yield types.CodeAction(
                escaped(remedy.title),
                types.CodeActionKind.QuickFix,
                diagnostics=[_diagnostic(found, reading, lines, uri)],
                is_preferred=not index,
                edit=types.WorkspaceEdit({uri: edits(remedy.edits, lines)}),
            )


def completion(
    suggestion: Suggestion, number: int, place: CursorPlace, lines: TextLines
) -> types.CompletionItem:
    """A suggestion, in place of what is typed so far."""
    typed = types.Range(lines.position(place.start), lines.position(place.cursor))
    page = types.MarkupContent(types.MarkupKind.Markdown, suggestion.page)
    return types.CompletionItem(
        suggestion.text,
        kind=_SUGGESTIONS[suggestion.sort],
        detail=suggestion.detail or None,
        documentation=page if suggestion.page else None,
        sort_text=f"{number:04}",
        filter_text=suggestion.text,
        text_edit=types.TextEdit(typed, suggestion.insert),
    )


def symbol(item: Item, lines: TextLines) -> types.DocumentSymbol:
    """A setting, a block or ``extends`` as an entry of the outline."""
    whole = lines.range(item.span)
    if isinstance(item, Extends):
        kind, name, at, detail = types.SymbolKind.Module, "extends", item.span, ""
        detail = item.target.span.text
    elif isinstance(item, Block):
        kind, at, detail = types.SymbolKind.Namespace, item.name.span, ""
        name = f"{item.name.text} {item.label.span.text}" if item.label else item.name.text
    else:
        kind, name, at = types.SymbolKind.Property, item.name.text, item.name.span
        detail = " ".join(item.value.span.text.split())[:LONGEST_DETAIL]
    inside = item.items if isinstance(item, Block) else ()
    return types.DocumentSymbol(
        escaped(name),
        kind,
        whole,
        lines.range(at),
        detail=escaped(detail),
        children=[symbol(each, lines) for each in inside],
    )
