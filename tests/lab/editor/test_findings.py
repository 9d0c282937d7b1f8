"""What check finds, as an editor shows it: alone, and in a session with the language server."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import PositionCodec

from bertc.api import check
from bertc.base.diagnostics import Source, Span, SpecError, codes
from bertc.lab.editor.convert import TextLines, actions, diagnostics
from bertc.lab.editor.hover import page_at
from bertc.lab.editor.place import place_at
from bertc.lab.editor.reading import read_checked
from bertc.lab.editor.suggestions import suggestions
from bertc.lang.files import shipped_place
from docs.grammars import TEXT_MATE_FILE, text as grammar

URI = "file:///mine.bertc"
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(10**6, 0))


def lines(text):
    return TextLines(text, PositionCodec())


def changed(text, action):
    """A text after the edits of an action, made as an editor does."""
    at = lines(text)
    edits = [
        (at.offset(edit.range.start), at.offset(edit.range.end), edit.new_text)
        for edit in action.edit.changes[URI]
    ]
    for start, end, new in reversed(sorted(edits)):
        text = text[:start] + new + text[end:]
    return text


def messages(reading):
    return [(each.code, each.message) for each in reading.findings]


@pytest.mark.parametrize("code", [c for c, page in codes().items() if not page.beside][::6])
def test_findings_stand_where_check_says_and_actions_remove_them(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = codes()[code].bad
    reading = read_checked(tmp_path / "mine.bertc", text)
    shown = diagnostics(reading, lines(text))
    assert len(shown) == len(reading.findings) + bool(reading.failure)
    for found, at in zip(reading.findings, shown, strict=False):
        if found.span and reading.has(found):
            start = (at.range.start.line + 1, at.range.start.character + 1)
            assert start == (found.span.line, found.span.column)
            assert at.message.startswith(found.message)
    for action in actions(reading, lines(text), URI, EVERYWHERE):
        assert action.diagnostics is not None
        after = read_checked(tmp_path / "mine.bertc", changed(text, action))
        assert len(messages(after)) < len(messages(reading)) or messages(after) != messages(reading)
        if len(reading.findings) == 1:
            mistakes = {each.code for each in after.findings if each.code[0] == "E"}
            assert mistakes <= {"E309"}, "but for files that are not here"


def test_a_help_in_two_alternatives_is_two_actions():
    text = "hidden = 384\nheads = 10\n"
    reading = read_checked(Path("mine.bertc"), text)
    made = [changed(text, action) for action in actions(reading, lines(text), URI, EVERYWHERE)]
    assert made == ["hidden = 384\nheads=8\n", "hidden = 384\nheads=12\n"]


def test_what_a_base_has_is_shown_at_extends_and_mended_here(tmp_path):
    (tmp_path / "base.bertc").write_text("heads = 7\n")
    text = 'extends "base.bertc"\nlayers = 2'
    reading = read_checked(tmp_path / "mine.bertc", text)
    (shown,) = diagnostics(reading, lines(text))
    assert shown.range == types.Range(types.Position(0, 0), types.Position(0, 20))
    assert "\nin base.bertc:1:1\n" in shown.message
    (first, *_) = actions(reading, lines(text), URI, EVERYWHERE)
    assert messages(read_checked(tmp_path / "mine.bertc", changed(text, first))) == []
    (tmp_path / "base.bertc").write_text("heads = 6\n")
    read_checked.cache_clear()
    assert messages(read_checked(tmp_path / "mine.bertc", text)) == []


def test_a_file_that_cannot_be_used_is_shown_on_the_first_line(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    text = f"data = files('{tmp_path}/bad.txt')\nlayers = 2\n"
    (shown,) = diagnostics(read_checked(tmp_path / "mine.bertc", text), lines(text))
    assert shown.range == types.Range(types.Position(0, 0), types.Position(1, 0))
    assert "bad.txt:1: " in shown.message


def test_hostile_text_is_shown_as_text():
    text = "hidden = 64\nlayers\u202e = \x1b[31m2\n"
    for shown in diagnostics(read_checked(Path("mine.bertc"), text), lines(text)):
        assert not {"\u202e", "\x1b"} & set(shown.message)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_columns_are_counted_as_the_client_counts(end):
    text = f"# one{end}# 😀 é{end}L=3"
    at = lines(text)
    span = Span(Source("", text), text.index("é"), len(text))
    assert at.range(span.start, span.end) == types.Range(types.Position(1, 5), types.Position(2, 3))
    places = (0, 9, span.start, span.end)
    assert tuple(at.offset(at.position(place)) for place in places) == places
    assert at.offset(types.Position(0, 99)) == 5
    assert at.offset(types.Position(99, 0)) == len(text)


def test_the_grammar_has_the_words_of_the_settings():
    assert TEXT_MATE_FILE.read_text(encoding="utf-8") == grammar(), "run python docs/grammars.py"


@pytest.mark.parametrize(("text", "first"), [
    ("lay", ["layers = ", "layout = "]), ("lay|ers = 3", ["layers", "layout"]),
    ("layers=12 hid", ["hidden = "]), ("pack=t", ["true"]),
    ("share = ", ["none", "all", "attention", "ffn", "groups(", "map("]),
    ("objective = mlm(unit=", ["token", "word", "ngram", "span"]),
    ("objective = mlm(15%, un", ["unit="]), ("objective = span(", ["p=", "max="]),
    ("objective = mlm + so", ["sop"]), ("objective=5*k", ["kd(logits)"]),
    ("objective=mlm + kd(hidden, la", ["layers="]),
    ("optimizer=adamw(1e-3, schedule=w", ["wsd"]), ("heads={4, 8} att", ["attention = "]),
    ("objective = mlm(p=15%\nhid", ["hidden = "]),
    ("extends albert-ba", ["albert-base-paper", "albert-base"]),
    ('stage "long" { ste', ["steps = "]), ('stage "long" { hid', []),
    ("generator { hid", ["hidden = "]), ("layers = 3 lay", ["layout = "]),
    ('stage "one" { steps=3 }\nlay', ["layers = ", "layout = "]),
    ("# lay", []), ('stage "lay', []), ("nonsense = ", []), ("layers = 12,", []),
])  # fmt: skip
def test_what_is_offered(text, first):
    before, _, after = text.partition("|")  # the cursor
    place = place_at(before + after, len(before))
    typed = place.text[place.start : place.cursor]
    offered = [each.insert for each in suggestions(place) if each.text.startswith(typed)]
    assert offered[: max(1, len(first))] == first


@pytest.mark.parametrize(("text", "expected"), [
    ("hid|den = 64", "width of the residual stream"),
    ("H| = 64", "Default: `768`, of BERT-base"),
    ("heads| = 2", "Default: hidden / 64"),
    ("objective = m|lm + sop", "Predict masked tokens"),
    ("objective = mlm(p|=20%)", "**`p`** of `mlm`: number > 0, ≤ 1"),
    ("objective = mlm + k|d(logits, T=2)", "kd(logits, "),
    ("generator { hid|den = 64 }", "**`hidden`** of `network`"),
    ("extends albert-b|ase", "ALBERT-base, version 2, as released"),
    ("exte|nds albert-base", "begin with all settings"),
    ('sta|ge "a" { steps=1 }', "a part of the training"),
    ("hidden = 64|", ""), ("none|sense = 3", ""), ("layers = |", ""), ("# hid|den", ""),
])  # fmt: skip
def test_hover_shows_the_page_of_a_word(text, expected):
    before, _, after = text.partition("|")
    page = page_at(place_at(before + after, len(before)))
    assert expected in page if expected else page == ""


def test_no_beginning_of_a_spec_raises():
    """However far it is typed, and whatever stands behind."""
    texts = [shipped_place("prune-heads").read().partition("\n\n")[2]]
    texts += [page.bad for code, page in codes().items() if code < "E1"]
    for text in texts:
        for end in range(0, len(text), 4):
            for whole in (text[:end], text):
                place = place_at(whole, end)
                suggestions(place)
                page_at(place)


ROOT = Path(__file__).parents[3]
SPEC = """extends "base.bertc"   # 😀 data="x" hidden
heads = 10
layers = 3
stage "one" { steps=10 }
stage "two" { steps=20 }
"""


class Session:
    """An editor with the server that it has started."""

    def __init__(self, folder):
        self.folder = folder
        self.runner = asyncio.Runner()
        self.client = LanguageClient("test", "1")
        self.found: dict[str, types.PublishDiagnosticsParams] = {}
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.found.update({params.uri: params})
        )
        self.version = 0

    def ask(self, name, params):
        return self.runner.run(getattr(self.client, f"{name}_async")(params))

    def begin(self):
        command = (sys.executable, "-m", "bertc.cli", "lsp")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.runner.run(self.client.start_io(*command, cwd=str(ROOT), env=environment))
        able, root = types.ClientCapabilities(), self.folder.as_uri()
        self.ask("initialize", types.InitializeParams(able, root_uri=root))
        self.client.initialized(types.InitializedParams())

    def end(self):
        self.ask("shutdown", None)
        self.client.exit(None)
        self.runner.run(self.client.stop())
        self.runner.close()

    def uri(self, name="mine.bertc"):
        return (self.folder / name).as_uri()

    def type(self, text):
        """What is found in a text, once it is."""
        uri, self.version = self.uri(), self.version + 1
        if self.version == 1:
            document = types.TextDocumentItem(uri, "bertc", self.version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        else:
            document = types.VersionedTextDocumentIdentifier(self.version, uri)
            change = types.TextDocumentContentChangeWholeDocument(text)
            params = types.DidChangeTextDocumentParams(document, [change])
            self.client.text_document_did_change(params)
        return self.runner.run(asyncio.wait_for(self.answered(), 100))

    async def answered(self):
        while self.uri() not in self.found or self.found[self.uri()].version != self.version:
            await asyncio.sleep(0.01)
        return list(self.found[self.uri()].diagnostics)

    def at(self, line, column):
        return types.TextDocumentIdentifier(self.uri()), types.Position(line, column)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("specs")
    (folder / "base.bertc").write_text("extends bert-tiny\n\nhidden = 128\n", encoding="utf-8")
    opened = Session(folder)
    opened.begin()
    yield opened
    opened.end()


def test_what_is_found_is_what_check_finds_and_a_fix_mends_it(session):
    shown = session.type(SPEC)
    (session.folder / "saved.bertc").write_text(SPEC, encoding="utf-8")
    error = pytest.raises(SpecError, check, str(session.folder / "saved.bertc"))
    places = [(each.code, each.span.line, each.span.column) for each in error.value.diagnostics]
    starts = [(each.code, each.range.start) for each in shown]
    assert places == [(code, start.line + 1, start.character + 1) for code, start in starts]
    document = types.TextDocumentIdentifier(session.uri())
    there = types.CodeActionParams(document, shown[0].range, types.CodeActionContext(shown))
    (first, *_) = session.ask("text_document_code_action", there)
    (edit,) = first.edit.changes[session.uri()]
    assert session.type(SPEC.replace("heads = 10", edit.new_text)) == []


def test_choices_replace_what_is_typed_and_a_word_is_explained(session):
    session.type(SPEC.replace("layers = 3", 'data="😀" lay'))
    found = session.ask("text_document_completion", types.CompletionParams(*session.at(2, 13)))
    (item,) = [item for item in found.items if item.label == "layout"]
    assert item.text_edit.range == types.Range(types.Position(2, 10), types.Position(2, 13))
    session.type(SPEC.replace("heads = 10\n", ""))
    hover = session.ask("text_document_hover", types.HoverParams(*session.at(1, 2)))
    assert "number of layers" in hover.contents.value
    assert hover.range == types.Range(types.Position(1, 0), types.Position(1, 6))
    assert session.ask("text_document_hover", types.HoverParams(*session.at(0, 44))) is None


def test_formatting(session):
    session.type(SPEC)
    document = types.TextDocumentIdentifier(session.uri())
    asked = types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
    (edit,) = session.ask("text_document_formatting", asked)
    assert 'stage "one" { steps = 10 }\n' in edit.new_text
    session.type('layers = = 3 "')
    assert session.ask("text_document_formatting", asked) is None
