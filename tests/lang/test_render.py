"""Diagnostics as text: what the golden cases do not show."""

import json
from pathlib import Path

import pytest

import bertc
from bertc.base.diagnostics import (
    Diagnostic,
    Note,
    Source,
    Span,
    escaped,
    for_terminal,
    listed,
    nearest,
    render,
)
from bertc.base.diagnostics.render import MOST_LINES


def span(text: str, start: int, end: int, name: str = "a.bertc") -> Span:
    return Span(Source(name, text), start, end)


def test_diagnostics_show_their_lines():
    shown = {
        Diagnostic("E203", "too long", help="seq=128"): ["help: seq=128"],
        Diagnostic("E007", "nothing", span("", 0, 0)): ["  --> a.bertc:1:1", "1 |", "  | ^"],
        Diagnostic("E102", "twice", span("a = f(\n  1)\n", 4, 11)): [
            "  --> a.bertc:1:5", "1 | a = f(", "  |     ^^",
        ],
    }  # fmt: skip
    for diagnostic, lines in shown.items():
        head = f"error[{diagnostic.code}]: {diagnostic.message}"
        assert render([diagnostic]).splitlines() == [head, *lines]


@pytest.mark.parametrize("place", [0, 5_000, 9_990])
def test_a_long_line_is_cut_around_the_place(place):
    text = "x" * place + "HERE" + "x" * (9_996 - place)
    lines = render([Diagnostic("E007", "m", span(text, place, place + 4))]).splitlines()
    assert len(lines[2]) < 120
    column = lines[3].index("^")
    assert lines[2][column : column + 4] == "HERE"
    assert lines[3].count("^") == 4


def test_wide_characters_and_tabs_are_counted_as_a_terminal_shows_them():
    lines = render([Diagnostic("E007", "m", span("\t日本e\u0301 x", 6, 7))]).splitlines()
    assert lines[2] == "1 |     日本e\u0301 x"
    assert lines[3] == "  |          " + " " + "^"


def test_notes_beyond_the_room_lose_their_lines_but_not_their_places():
    text = "a=1\nb=2\nc=3\nd=4\n"
    notes = tuple(Note(f"note {n}", span(text, 4 * n, 4 * n + 3)) for n in range(4))
    shown = render([Diagnostic("E102", "m", span(text, 0, 3), "label", notes, "help")])
    assert len(shown.splitlines()) <= MOST_LINES
    assert "note: note 3, at a.bertc:4:1" in shown
    assert shown.endswith("help: help")


def test_order_is_that_of_the_text_and_doubles_are_shown_once():
    text = "abc"
    first, second = (Diagnostic("E007", f"m{n}", span(text, n, n + 1)) for n in (0, 1))
    other = Diagnostic("E101", "other", span(text, 0, 1, "--set #1"))
    shown = render([second, other, first, second])
    assert [line for line in shown.splitlines() if line.startswith("error")] == [
        "error[E007]: m0", "error[E007]: m1", "error[E101]: other",
    ]  # fmt: skip


@pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\u202e", "\u2028", "\U000e0001", "\r"])
def test_text_of_others_acts_on_no_terminal_and_json_keeps_its_value(sign):
    written = json.dumps({"label": f"a{sign}b日\t"}, ensure_ascii=False, indent=1)
    shown = for_terminal(written)
    assert sign not in shown
    assert "日" in shown
    assert json.loads(shown) == json.loads(written)
    assert sign not in for_terminal(f"two\n{sign} lines")
    signs = "\\x1b\\x9b\\u202e\\u2028\\ufeff\\x0a"
    assert escaped("é日 a\x1b\x9b\u202e\u2028\ufeff\n") == f"é日 a{signs}"


def test_commands_print_by_one_function():
    """All that they print is made safe there, but text with colours."""
    texts = {
        path.name: path.read_text() for path in (Path(bertc.__file__).parent / "cli").glob("*.py")
    }
    assert {name for name, text in texts.items() if "typer.echo" in text} == {"options.py"}
    styled = [
        line for text in texts.values() for line in text.splitlines() if "styled=True" in line
    ]
    assert all("render(" in line or "preview(" in line for line in styled)


def test_near_words_are_named_and_long_lists_counted():
    words = {"hiden": "hidden", "Save-Every": "save_every", "l": "L", "chickens": ""}
    assert {word: nearest(word, ["hidden", "heads", "save_every", "L"]) for word in words} == words
    assert listed(["ab", "cd", "ef", "gh", "ij"], limit=7) == "ab, cd and 3 more"
    assert listed(["ab", "cd", "ef"], limit=7) == "ab, cd, ef"
