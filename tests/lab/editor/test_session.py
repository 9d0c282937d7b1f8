"""A session with the language server, over standard input and output as an editor has it."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from bertc.api import check
from bertc.base.diagnostics import SpecError

ROOT = Path(__file__).parents[3]
SPEC = """extends "base.bertc"   # 😀 data="x" hidden
heads = 10
layers = 3
stage "one" { steps=10 }
stage "two" { steps=20 }
"""


class Session:
    """An editor with the server that it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = asyncio.Runner()
        self.client = LanguageClient("test", "1")
        self.found: dict[str, types.PublishDiagnosticsParams] = {}
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.found.update({params.uri: params})
        )
        self.version = 0

    def ask(self, name: str, params: Any) -> Any:
        return self.runner.run(getattr(self.client, f"{name}_async")(params))

    def begin(self) -> types.InitializeResult:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        start = self.client.start_io(
            sys.executable, "-m", "bertc.cli", "lsp", cwd=str(ROOT), env=environment
        )
        self.runner.run(start)
        result = self.ask(
            "initialize",
            types.InitializeParams(types.ClientCapabilities(), root_uri=self.folder.as_uri()),
        )
        self.client.initialized(types.InitializedParams())
        return result

    def end(self) -> None:
        self.ask("shutdown", None)
        self.client.exit(None)
        self.runner.run(self.client.stop())
        self.runner.close()

    def uri(self, name: str = "mine.bertc") -> str:
        return (self.folder / name).as_uri()

    def type(self, text: str) -> list[types.Diagnostic]:
        """What is found in a text, once it is."""
        uri, self.version = self.uri(), self.version + 1
        if self.version == 1:
            document = types.TextDocumentItem(uri, "bertc", self.version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        else:
            self.client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(self.version, uri),
                    [types.TextDocumentContentChangeWholeDocument(text)],
                )
            )
        return self.runner.run(asyncio.wait_for(self.answered(), 100))

    async def answered(self) -> list[types.Diagnostic]:
        while self.uri() not in self.found or self.found[self.uri()].version != self.version:
            await asyncio.sleep(0.01)
        return list(self.found[self.uri()].diagnostics)

    def at(self, line: int, column: int) -> dict[str, Any]:
        return {
            "text_document": types.TextDocumentIdentifier(self.uri()),
            "position": types.Position(line, column),
        }


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("specs")
    (folder / "base.bertc").write_text("extends bert-tiny\n\nhidden = 128\n", encoding="utf-8")
    opened = Session(folder)
    opened.begin()
    yield opened
    opened.end()


def test_what_is_found_is_what_check_finds_and_a_fix_mends_it(session):
    shown = session.type(SPEC)
    (session.folder / "saved.bertc").write_text(SPEC, encoding="utf-8")
    with pytest.raises(SpecError) as error:
        check(str(session.folder / "saved.bertc"))
    places = [(each.code, each.span.line, each.span.column) for each in error.value.diagnostics]
    assert places == [
        (each.code, each.range.start.line + 1, each.range.start.character + 1) for each in shown
    ]
    context = types.CodeActionContext(shown)
    document = types.TextDocumentIdentifier(session.uri())
    (first, *_) = session.ask(
        "text_document_code_action", types.CodeActionParams(document, shown[0].range, context)
    )
    (edit,) = first.edit.changes[session.uri()]
    assert session.type(SPEC.replace("heads = 10", edit.new_text)) == []


def test_choices_replace_what_is_typed(session):
    session.type(SPEC.replace("layers = 3", 'data="😀" lay'))
    found = session.ask("text_document_completion", types.CompletionParams(**session.at(2, 13)))
    (item,) = [item for item in found.items if item.label == "layout"]
    assert item.text_edit.range == types.Range(types.Position(2, 10), types.Position(2, 13))


def test_a_word_is_explained(session):
    session.type(SPEC.replace("heads = 10\n", ""))
    hover = session.ask("text_document_hover", types.HoverParams(**session.at(1, 2)))
    assert "number of layers" in hover.contents.value
    assert hover.range == types.Range(types.Position(1, 0), types.Position(1, 6))
    assert session.ask("text_document_hover", types.HoverParams(**session.at(0, 44))) is None


def test_formatting(session):
    session.type(SPEC)
    document = types.TextDocumentIdentifier(session.uri())
    asked = types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
    (edit,) = session.ask("text_document_formatting", asked)
    assert 'stage "one" { steps = 10 }\n' in edit.new_text
    session.type('layers = = 3 "')
    assert session.ask("text_document_formatting", asked) is None
