"""What check finds, as an editor shows it: the same places, and helps that are edits."""

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from bertc.base.diagnostics import Source, Span, codes
from bertc.lab.editor.convert import TextLines, actions, diagnostics
from bertc.lab.editor.hover import page_at
from bertc.lab.editor.place import place_at
from bertc.lab.editor.reading import Reading, read_checked
from bertc.lab.editor.suggestions import suggestions
from bertc.lang.files import shipped_place
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


def messages(reading: Reading) -> list[tuple[str, str]]:
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
        assert len(messages(after)) < len(messages(reading)) or messages(after) != messages(reading)
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
    assert [at.offset(at.position(offset)) for offset in (0, 9, span.start, span.end)] == [
        0, 9, span.start, span.end,
    ]  # fmt: skip
    assert at.offset(types.Position(0, 99)) == 5
    assert at.offset(types.Position(99, 0)) == len(text)


def test_the_grammar_has_the_words_of_the_settings():
    assert TEXT_MATE_FILE.read_text(encoding="utf-8") == grammar(), "run python docs/grammars.py"


def offered(text: str) -> list[str]:
    """What is inserted of that which goes on from the end of a text; a bar is the cursor."""
    before, _, after = text.partition("|")
    place = place_at(before + after, len(before))
    found = suggestions(place)
    typed = place.text[place.start : place.cursor]
    return [suggestion.insert for suggestion in found if suggestion.text.startswith(typed)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("lay", ["layers = ", "layout = "]),
        ("lay|ers = 3", ["layers", "layout"]),
        ("layers=12 hid", ["hidden = "]),
        ("share = ", ["none", "all", "attention", "ffn", "groups(", "map("]),
        ("pack=t", ["true"]),
        ("objective = mlm(unit=", ["token", "word", "ngram", "span"]),
        ("objective = mlm(15%, un", ["unit="]),
        ("objective = span(", ["p=", "max="]),
        ("objective = mlm + so", ["sop"]),
        ("objective=5*k", ["kd(logits)"]),
        ("objective=mlm + kd(hidden, la", ["layers="]),
        ("optimizer=adamw(1e-3, schedule=w", ["wsd"]),
        ("heads={4, 8} att", ["attention = "]),
        ("objective = mlm(p=15%\nhid", ["hidden = "]),
        ("extends albert-ba", ["albert-base-paper", "albert-base"]),
        ('stage "long" { ste', ["steps = "]),
        ('stage "long" { hid', []),
        ("generator { hid", ["hidden = "]),
        ('stage "one" { steps=3 }\nlay', ["layers = ", "layout = "]),
        ("# lay", []),
        ('stage "lay', []),
        ("layers = 3 lay", ["layout = "]),
        ("nonsense = ", []),
        ("layers = 12,", []),
    ],
)
def test_what_is_offered(text, first):
    assert offered(text)[: max(1, len(first))] == first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
        ("hidden = 64|", ""),
        ("none|sense = 3", ""),
        ("layers = |", ""),
        ("# hid|den", ""),
    ],
)
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
