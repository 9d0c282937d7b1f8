"""The language server: documents as they are typed, and the answers to requests about them."""

import asyncio
import os
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from bertc import SpecError, __version__
from bertc.lab.editor import convert
from bertc.lab.editor.convert import TextLines
from bertc.lab.editor.hover import page_at
from bertc.lab.editor.place import CursorPlace, place_at
from bertc.lab.editor.reading import Reading, read_checked
from bertc.lab.editor.suggestions import suggestions
from bertc.lab_api import formatted

QUIET_SECONDS = 0.15
"""Pause between keys after which a text is checked."""


class Server(LanguageServer):
    """A server for specs, which checks a text once no key was pressed for a moment."""

    def __init__(self) -> None:
        super().__init__("bertc", __version__, types.TextDocumentSyncKind.Full)
        self.checking: dict[str, asyncio.Task[None]] = {}

    def lines(self, uri: str) -> TextLines:
        """The lines of a document."""
        text = self.workspace.get_text_document(uri).source
        return TextLines(text, self.workspace.position_codec)

    def place(
        self, params: types.CompletionParams | types.HoverParams
    ) -> tuple[TextLines, CursorPlace]:
        """The lines of a document, and the place of a position in it."""
        lines = self.lines(params.text_document.uri)
        return lines, place_at(lines.text, lines.offset(params.position))

    def path(self, uri: str) -> Path:
        """The file of a document; of one without a file, its name in the working folder."""
        path = to_fs_path(uri) if uri.startswith("file:") else None
        return Path(path) if path else Path.cwd() / uri.rpartition(":")[2]

    def checked(self, uri: str) -> Reading:
        """A document with all that is found in it."""
        return read_checked(self.path(uri), self.lines(uri).text)

    def check_soon(self, uri: str) -> None:
        """Check a document and send what is found, once no key was pressed for a moment."""
        if uri in self.checking:
            self.checking[uri].cancel()
        self.checking[uri] = asyncio.ensure_future(self._check(uri))

    async def _check(self, uri: str) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        try:
            shown = convert.diagnostics(self.checked(uri), self.lines(uri))
        except Exception as error:  # whatever was typed, the next text is checked again
            message = f"internal error: {error!r}; please report it with this text"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        self.publish(uri, shown, self.workspace.get_text_document(uri).version)

    def publish(self, uri: str, items: list[types.Diagnostic], version: int | None = None) -> None:
        """Send what was found in a document."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, items, version))


def initialized(ls: Server, params: types.InitializedParams) -> None:
    """Begin in the folder that is open in the editor, where paths in specs begin too."""
    folder = ls.workspace.root_path
    if folder and Path(folder).is_dir():
        os.chdir(folder)


def document_changed(
    ls: Server, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams
) -> None:
    """Check a document that was opened or is being typed."""
    ls.check_soon(params.text_document.uri)


def files_changed(
    ls: Server, params: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams
) -> None:
    """Check every open document anew, since a file has changed that it may depend on."""
    read_checked.cache_clear()
    for uri in ls.workspace.text_documents:
        ls.check_soon(uri)


def document_closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Take back what was found in a document."""
    uri = params.text_document.uri
    if task := ls.checking.pop(uri, None):
        task.cancel()
    ls.publish(uri, [])


def suggest(ls: Server, params: types.CompletionParams) -> types.CompletionList:
    """Answer with all that may be written at a position."""
    lines, place = ls.place(params)
    offered = enumerate(suggestions(place))
    items = [convert.completion(suggestion, n, place, lines) for n, suggestion in offered]
    return types.CompletionList(is_incomplete=False, items=items)


def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    """The meaning of the word at a position."""
    lines, place = ls.place(params)
    if not (page := page_at(place)):
        return None
    at = types.Range(lines.position(place.start), lines.position(place.end))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, page), at)


def act(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The helps about a range that are edits."""
    uri = params.text_document.uri
    return list(convert.actions(ls.checked(uri), ls.lines(uri), uri, params.range))


def format(ls: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The canonical text of a document; None while it cannot be read."""
    uri = params.text_document.uri
    lines = ls.lines(uri)
    try:
        text = formatted(lines.text, str(ls.path(uri)))
    except SpecError:
        return None
    everything = types.Range(types.Position(0, 0), lines.position(len(lines.text)))
    return [types.TextEdit(everything, text)] if text != lines.text else []


def create() -> Server:
    """A server that answers all requests."""
    ls = Server()
    triggers = ["=", "(", ",", "+", "*", "[", "{"]
    ls.feature(types.INITIALIZED)(initialized)
    ls.feature(types.TEXT_DOCUMENT_DID_OPEN)(document_changed)
    ls.feature(types.TEXT_DOCUMENT_DID_CHANGE)(document_changed)
    ls.feature(types.TEXT_DOCUMENT_DID_SAVE)(files_changed)
    ls.feature(types.TEXT_DOCUMENT_DID_CLOSE)(document_closed)
    ls.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(files_changed)
    ls.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(triggers))(suggest)
    ls.feature(types.TEXT_DOCUMENT_HOVER)(hover)
    ls.feature(types.TEXT_DOCUMENT_FORMATTING)(format)
    fixes = types.CodeActionOptions([types.CodeActionKind.QuickFix])
    ls.feature(types.TEXT_DOCUMENT_CODE_ACTION, fixes)(act)
    return ls
