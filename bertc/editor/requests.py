"""The answers to an editor's requests, one function each, and the server that has them all."""

from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from bertc.diagnostics import Fix, SpecError
from bertc.editor import convert, server
from bertc.editor.hover import page_at, setting_around
from bertc.editor.lines import TextLines
from bertc.editor.place import place_at
from bertc.editor.reading import Reading
from bertc.editor.server import QUIET_SECONDS, Server
from bertc.editor.suggestions import suggestions
from bertc.storage.paths import is_file, user_path
from bertc.syntax import format_text
from bertc.syntax.helps import own_name, written_settings
from bertc.syntax.lowering.lower import BLOCKS
from bertc.syntax.read.tree import Block, String
from bertc.syntax.write.show import quoted


def suggest(ls: Server, params: types.CompletionParams) -> types.CompletionList:
    """Answer with all that may be written at a position."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    place = place_at(lines.text, lines.offset(params.position))
    found = suggestions(place, ls.path(uri).parent)
    items = [convert.completion(each, n, place, lines) for n, each in enumerate(found)]
    # Names of files go on after each folder.
    return types.CompletionList(is_incomplete=place.in_string, items=items)


def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    """The meaning of the word at a position."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    place = place_at(lines.text, lines.offset(params.position))
    page = page_at(place, ls.written(uri))
    if not page:
        return None
    at = types.Range(lines.position(place.start), lines.position(place.end))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, page), at)


def define(ls: Server, params: types.DefinitionParams) -> types.Location | None:
    """The spec that is extended, the place where a base has a setting, or the file of a string."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    place = place_at(lines.text, lines.offset(params.position))
    reading = ls.written(uri)
    extends, setting = reading.extends, setting_around(reading, place.cursor)
    if extends and extends.span.start <= place.cursor <= extends.span.end:
        base = next((base for base, _ in reading.bases), None)
        return _beginning(base.path) if base and base.path else None
    if setting:
        return _in_base(reading, own_name(setting).text, lines)
    path = user_path(place.word)
    return _beginning(path) if place.in_string and is_file(path) else None


def _in_base(reading: Reading, setting: str, lines: TextLines) -> types.Location | None:
    """The place where the nearest base has a setting."""
    for base, tree in reading.bases:
        for each in written_settings(tree):
            if base.path and each.name.text == setting:
                return convert.location(base.path, each.span, lines)
    return None


def _beginning(path: Path) -> types.Location:
    start = types.Position(0, 0)
    return types.Location(path.absolute().as_uri(), types.Range(start, start))


def act(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The helps about a range that are edits."""
    uri = params.text_document.uri
    return list(convert.actions(ls.checked(uri), ls.lines(uri), uri, params.range))


def format(ls: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The canonical text of a document; None while it cannot be read."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    try:
        text = format_text(lines.text, str(ls.path(uri)))
    except SpecError:
        return None
    whole = types.Range(types.Position(0, 0), lines.position(len(lines.text)))
    return [types.TextEdit(whole, text)] if text != lines.text else []


def symbols(ls: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """The outline of a document."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    return [convert.symbol(item, lines) for item in ls.written(uri).tree.items]


def can_rename(
    ls: Server, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name of the stage at a position, which is all that has a name to choose."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    label = _stage_label(ls.written(uri), lines.offset(params.position))
    if label is None:
        return None
    at = types.Range(lines.position(label.span.start + 1), lines.position(label.span.end - 1))
    return types.PrepareRenamePlaceholder(at, label.value)


def rename_stage(ls: Server, params: types.RenameParams) -> types.WorkspaceEdit:
    """Give a stage another name; no two stages may have the same."""
    uri = params.text_document.uri
    lines, reading = ls.lines(uri), ls.written(uri)
    label = _stage_label(reading, lines.offset(params.position))
    if label is None:
        raise JsonRpcInvalidParams("only stages can be renamed")
    names = {each.label.value for each in _stages(reading) if each.label and each.label != label}
    if not params.new_name or params.new_name in names:
        raise JsonRpcInvalidParams("a stage has a name that no other one has")
    fix = Fix(label.span, quoted(params.new_name))
    return types.WorkspaceEdit({uri: convert.edits([fix], lines)})


def _stages(reading: Reading) -> list[Block]:
    blocks = (item for item in reading.tree.items if isinstance(item, Block))
    return [block for block in blocks if block.name.text in BLOCKS]


def _stage_label(reading: Reading, cursor: int) -> String | None:
    """The label of the stage whose first words are at an offset."""
    for block in _stages(reading):
        if block.label and block.span.start <= cursor <= block.label.span.end:
            return block.label
    return None


def create(quiet: float = QUIET_SECONDS) -> Server:
    """A server that answers all requests; ``quiet`` in seconds."""
    ls = Server(quiet)
    triggers = ["=", "(", ",", "+", "*", '"', "'", "/", "[", "{"]
    ls.feature(types.INITIALIZED)(server.initialized)
    ls.feature(types.TEXT_DOCUMENT_DID_OPEN)(server.document_opened)
    ls.feature(types.TEXT_DOCUMENT_DID_CHANGE)(server.document_changed)
    ls.feature(types.TEXT_DOCUMENT_DID_SAVE)(server.document_saved)
    ls.feature(types.TEXT_DOCUMENT_DID_CLOSE)(server.document_closed)
    ls.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(server.files_changed)
    ls.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(triggers))(suggest)
    ls.feature(types.TEXT_DOCUMENT_HOVER)(hover)
    ls.feature(types.TEXT_DOCUMENT_DEFINITION)(define)
    ls.feature(types.TEXT_DOCUMENT_FORMATTING)(format)
    ls.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(symbols)
    ls.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions([types.CodeActionKind.QuickFix]),
    )(act)
    ls.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(can_rename)
    ls.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(rename_stage)
    return ls
