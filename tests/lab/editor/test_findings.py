"""What check finds, as an editor shows it: the same places, and helps that are edits."""

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from bertc.base.diagnostics import Source, Span, codes
from bertc.lab.editor.convert import actions, diagnostics
from bertc.lab.editor.lines import TextLines
from bertc.lab.editor.reading import Reading, forget, read_checked
from docs.grammars import TEXT_MATE_FILE
from docs.grammars import text as grammar

URI = "file:///mine.bertc"
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(10**6, 0))


def lines(text: str) -> TextLines:
    return TextLines(text, PositionCodec())


def changed(text: str, action: types.CodeAction) -> str:
    """A text after the edits of an action, made as an editor does."""
    assert action.edit is not None
    assert action.edit.changes is not None
    at = lines(text)
    edits = [
        (at.offset(edit.range.start), at.offset(edit.range.end), edit.new_text)
        for edit in action.edit.changes[URI]
    ]
    for start, end, new in reversed(sorted(edits)):
        text = text[:start] + new + text[end:]
    return text


def told(reading: Reading) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in reading.findings]


FOUND_ALONE = [code for code, page in codes().items() if not page.beside][::6]


@pytest.mark.parametrize("code", FOUND_ALONE)
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
        assert len(told(after)) < len(told(reading)) or told(after) != told(reading)
        if len(reading.findings) == 1:
            mistakes = {each.code for each in after.findings if each.code[0] == "E"}
            assert mistakes <= {"E309"}, "but for files that are not here"


def test_a_help_in_two_alternatives_is_two_actions():
    text = "hidden = 384\nheads = 10\n"
    reading = read_checked(Path("mine.bertc"), text)
    found = list(actions(reading, lines(text), URI, EVERYWHERE))
    assert [changed(text, action) for action in found] == [
        "hidden = 384\nheads=8\n",
        "hidden = 384\nheads=12\n",
    ]


def test_what_a_base_has_is_shown_at_extends_and_mended_here(tmp_path):
    (tmp_path / "base.bertc").write_text("heads = 7\n")
    text = 'extends "base.bertc"\nlayers = 2'
    reading = read_checked(tmp_path / "mine.bertc", text)
    (shown,) = diagnostics(reading, lines(text))
    assert shown.range == types.Range(types.Position(0, 0), types.Position(0, 20))
    assert "\nin base.bertc:1:1\n" in shown.message
    (first, *_) = actions(reading, lines(text), URI, EVERYWHERE)
    assert told(read_checked(tmp_path / "mine.bertc", changed(text, first))) == []
    (tmp_path / "base.bertc").write_text("heads = 6\n")
    forget()
    assert told(read_checked(tmp_path / "mine.bertc", text)) == []


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
    assert [at.offset(at.position(offset)) for offset in (0, 9, span.start, span.end)] == [
        0, 9, span.start, span.end,
    ]  # fmt: skip
    assert at.offset(types.Position(0, 99)) == 5
    assert at.offset(types.Position(99, 0)) == len(text)


def test_the_grammar_has_the_words_of_the_settings():
    assert TEXT_MATE_FILE.read_text(encoding="utf-8") == grammar(), "run python docs/grammars.py"
