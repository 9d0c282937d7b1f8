"""The language server: documents as they are typed, and the requests about them."""

import asyncio
import gc
import os
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from bertc import __version__
from bertc.editor import reading
from bertc.editor.convert import diagnostics
from bertc.editor.lines import TextLines
from bertc.editor.place import place_at
from bertc.editor.reading import Reading
from bertc.editor.suggestions import suggestions
from bertc.storage.paths import is_folder, working_folder

QUIET_SECONDS = 0.15
"""Pause between keys after which a text is checked."""


class Server(LanguageServer):
    """A server for specs, which checks a text once no key was pressed for ``quiet`` seconds."""

    def __init__(self, quiet: float = QUIET_SECONDS) -> None:
        super().__init__("bertc", __version__, types.TextDocumentSyncKind.Full)
        self.quiet = quiet
        self.checking: dict[str, asyncio.Task[None]] = {}

    def text(self, uri: str) -> str:
        """The text of a document as it is in the editor."""
        return self.workspace.get_text_document(uri).source

    def lines(self, uri: str) -> TextLines:
        """The lines of a document."""
        return TextLines(self.text(uri), self.workspace.position_codec)

    def path(self, uri: str) -> Path:
        """The file of a document; of one without a file, its name in the working folder."""
        path = to_fs_path(uri) if uri.startswith("file:") else None
        return Path(path) if path else working_folder() / uri.rpartition(":")[2]

    def written(self, uri: str) -> Reading:
        """A document and its bases, unchecked."""
        return reading.as_written(self.path(uri), self.text(uri))

    def checked(self, uri: str) -> Reading:
        """A document with all that is found in it."""
        return reading.read_checked(self.path(uri), self.text(uri))

    def check_soon(self, uri: str) -> None:
        """Check a document and send what is found, once no key was pressed for a moment."""
        if uri in self.checking:
            self.checking[uri].cancel()
        self.checking[uri] = asyncio.ensure_future(self._check(uri))

    async def _check(self, uri: str) -> None:
        await asyncio.sleep(self.quiet)
        try:
            shown = diagnostics(self.checked(uri), self.lines(uri), uri)
        except Exception as error:  # whatever was typed, the next text is checked again
            message = f"internal error: {error!r}; please report it with this text"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        self.publish(uri, shown, self.workspace.get_text_document(uri).version)

    def publish(self, uri: str, found: list[types.Diagnostic], version: int | None = None) -> None:
        """Send what was found in a document."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def check_all(self) -> None:
        """Check every open document anew, since a file has changed that it may depend on."""
        reading.forget()
        for uri in self.workspace.text_documents:
            self.check_soon(uri)

    def enter(self, folder: str | None) -> None:
        """Make a folder the one that the paths in specs begin in, as for a command run there."""
        if folder and is_folder(folder):
            os.chdir(folder)


def initialized(ls: Server, params: types.InitializedParams) -> None:
    """Begin in the folder that is open in the editor, with the pages of all words made."""
    ls.enter(ls.workspace.root_path)
    for text in ("", "extends "):
        suggestions(place_at(text, len(text)), working_folder())
    gc.freeze()  # what is there by now stays, and need not be looked at again and again


def document_opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Check a document that was opened."""
    ls.check_soon(params.text_document.uri)


def document_changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Check a document that is being typed."""
    ls.check_soon(params.text_document.uri)


def document_saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Check all documents: some may extend the one that was saved."""
    ls.check_all()


def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """Check all documents: a file that they name may have come or gone."""
    ls.check_all()


def document_closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Take back what was found in a document."""
    uri = params.text_document.uri
    if task := ls.checking.pop(uri, None):
        task.cancel()
    ls.publish(uri, [])
