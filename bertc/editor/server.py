"""The language server: documents as they are typed, and the requests about them."""

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from bertc import __version__
from bertc.diagnostics import Span
from bertc.editor import costs, reading
from bertc.editor.assistant import Assistant, FailedError
from bertc.editor.carried import carried_over
from bertc.editor.convert import diagnostics
from bertc.editor.lines import TextLines
from bertc.editor.place import place_at
from bertc.editor.reading import Reading
from bertc.editor.suggestions import suggestions
from bertc.storage.paths import is_folder, working_folder
from bertc.syntax import SpecLocation
from bertc.syntax.read.tree import Setting

QUIET_SECONDS = 0.15
"""Pause between keys after which findings are sent."""
ANSWER_SECONDS = 0.005
"""Time that an answer waits for what is being worked out."""


class Server(LanguageServer):
    """A server for specs; processes beside it check texts and work out costs."""

    def __init__(self, quiet: float = QUIET_SECONDS, patience: float = ANSWER_SECONDS) -> None:
        super().__init__("bertc", __version__, types.TextDocumentSyncKind.Full)
        self.quiet = quiet
        self.patience = patience
        self.checking: dict[str, asyncio.Task[None]] = {}
        self.checks, self.costing = Assistant(), Assistant()
        self.found: dict[str, Reading] = {}
        self.cost: asyncio.Task[str] | None = None
        self.cost_asked: tuple[SpecLocation, Span] | None = None

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

    async def checked(self, uri: str) -> Reading:
        """A document with all that is found in it."""
        found = await self.checks.call(reading.read_checked, self.path(uri), self.text(uri))
        self.found[uri] = found
        return found

    async def known(self, uri: str) -> Reading:
        """A document with all that is found in it.

        If that takes longer than a moment, it has what was found before in the parts that stay.
        """
        check = asyncio.ensure_future(self.checked(uri))
        if await _done(check, self.patience):
            return check.result()
        before = self.found.get(uri)
        return carried_over(before, self.written(uri)) if before else self.written(uri)

    async def cost_of(self, document: Reading, setting: Setting) -> str:
        """The cost of a setting if it is known after a moment, as it is when asked for again."""
        asked = document.place, setting.span
        if self.cost is None or self.cost_asked != asked:
            if self.cost:
                self.cost.cancel()  # another question, if it has not begun
            self.cost_asked = asked
            self.cost = asyncio.ensure_future(self.costing.call(costs.cost_text, *asked))
        return self.cost.result() if await _done(self.cost, self.patience) else ""

    def check_soon(self, uri: str) -> None:
        """Check a document, and tell what is found once no key was pressed for a moment."""
        if uri in self.checking:
            self.checking[uri].cancel()
        self.checking[uri] = asyncio.ensure_future(self._check(uri))

    async def _check(self, uri: str) -> None:
        text, version = self.text(uri), self.workspace.get_text_document(uri).version
        try:
            document, _ = await asyncio.gather(self.checked(uri), asyncio.sleep(self.quiet))
        except FailedError as error:  # whatever was typed, the next text is checked again
            message = f"internal error: {error}; please report it with this text"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return
        if uri in self.workspace.text_documents and self.text(uri) == text:
            self.publish(uri, diagnostics(document, self.lines(uri), uri), version)

    def publish(self, uri: str, found: list[types.Diagnostic], version: int | None = None) -> None:
        """Send what was found in a document."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    async def check_all(self) -> None:
        """Check every open document anew, since a file has changed that it may depend on."""
        reading.forget()
        self.cost = None
        for assistant, forget in ((self.checks, reading.forget), (self.costing, costs.forget)):
            if assistant.begun:
                await assistant.call(forget)
        for uri in self.workspace.text_documents:
            self.check_soon(uri)

    def enter(self, folder: str | None) -> None:
        """Make a folder the one that the paths in specs begin in, as for a command run there."""
        if folder and is_folder(folder):
            os.chdir(folder)


async def _done(work: asyncio.Task[Any], patience: float) -> bool:
    """True if something was worked out within ``patience`` seconds; if it only begins, never."""
    await asyncio.wait([work], timeout=patience)
    return work.done() and not work.cancelled() and not work.exception()


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


async def document_saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Check all documents: some may extend the one that was saved."""
    await ls.check_all()


async def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """Check all documents: a file that they name may have come or gone."""
    await ls.check_all()


def document_closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Take back what was found in a document."""
    uri = params.text_document.uri
    if task := ls.checking.pop(uri, None):
        task.cancel()
    ls.found.pop(uri, None)
    ls.publish(uri, [])
