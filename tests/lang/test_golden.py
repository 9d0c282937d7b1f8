"""Wrong specs and what is said about them, as text pairs in ``golden/``.

A case is a title, the spec, ``---`` and the rendered diagnostics; ``=====`` stands between two.
``python tests/lang/test_golden.py`` writes the renderings anew, for a person to read the diff.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import bertc
from bertc.base import diagnostics
from bertc.base.diagnostics import Diagnostic, Note, Source, Span, nearest, render
from bertc.base.diagnostics.render import MOST_LINES
from tests.fixes import apply_fixes, found

FOLDER = Path(__file__).parent / "golden"
BETWEEN = "\n=====\n"


@dataclass(frozen=True)
class Case:
    title: str
    spec: str
    expected: str


def read(path: Path) -> list[Case]:
    cases = []
    for text in path.read_text(encoding="utf-8").strip("\n").split(BETWEEN):
        title, _, rest = text.strip("\n").partition("\n")
        spec, _, expected = rest.partition("\n---")
        cases.append(Case(title, spec, expected.strip("\n")))
    return cases


def find(spec: str) -> list[Diagnostic]:
    return found(f"{spec}\n").found


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_rendering(case):
    mistakes = find(case.spec)
    assert render(mistakes) == case.expected
    for diagnostic in mistakes:
        text = render([diagnostic])
        assert len(text.splitlines()) <= MOST_LINES
        assert not diagnostic.message.endswith(".")
        assert not any(word in text.lower() for word in ("pydantic", "lark", "traceback"))


def fixable(case: Case) -> bool:
    """Whether applying the fixes leaves a spec without mistakes."""
    mistakes = find(case.spec)
    sources = {d.span.source for d in mistakes if d.span}
    return len(sources) == 1 and not find(apply_fixes(sources.pop(), mistakes))


def test_three_in_four_mistakes_of_meaning_have_a_help_that_removes_the_error():
    cases = [case for case in CASES if not any(d.code < "E100" for d in find(case.spec))]
    stuck = [case.title for case in cases if not fixable(case)]
    assert len({case.title for case in CASES}) == len(CASES) >= len(cases) >= 60
    assert len(stuck) <= len(cases) / 4, stuck


KEPT = {
    "objective=plm(block=60, unit=pieces) seq=128": "objective=plm(block=32, unit=pieces) seq=128",
    "objective=mlm(p=20%)+sop+2*tlm(p=10%) data=pairs(en='a', fr='b')":
        "objective=mlm(p=20%) + 2*tlm(p=10%) data=pairs(en='a', fr='b')",
    "objective=rtd+mlm generator=network(hidden=100, heads=3, tie=none)":
        "objective=rtd+mlm generator=network(hidden=100, heads=2, tie=none)",
    "heads=[6, 12] layers=2 head_dim=64 attention=relative(clamp=5)":
        "heads=[6, 12] layers=2 head_dim=64 attention=relative(clamp=5, untie=true)",
    "objective=plm memory=24": "objective=plm memory=24\nformat=stream\nattention=relative",
    "objective=plm memory=24 attention=full":
        "objective=plm memory=24 attention=relative\nformat=stream",
    "average=ema(0.1%) steps=100": "average=ema(1) steps=100",
    "optimizer=lamb(1e-3, warmup=2000, clip=0.5) steps=1000":
        "optimizer=lamb(1e-3, warmup=1%, clip=0.5) steps=1000",
    "grow=identity(moments=carry) stage 'a' {layers=2 steps=1} stage 'b' {layers=4 steps=9}":
        "grow=stack(moments=carry) stage 'a' {layers=2 steps=1} stage 'b' {layers=4 steps=9}",
}  # fmt: skip


@pytest.mark.parametrize("spec", KEPT)
def test_fixes_keep_what_else_is_written_and_lead_to_a_spec_that_checks(spec):
    mistakes = find(spec)
    (source,) = {d.span.source for d in mistakes if d.span}
    mended = apply_fixes(source, mistakes)
    assert mended.strip() == KEPT[spec]
    assert find(mended) == []


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
    # Wide characters and tabs are counted as a terminal shows them.
    lines = render([Diagnostic("E007", "m", span("\t日本e\u0301 x", 6, 7))]).splitlines()
    assert lines[2:4] == ["1 |     日本e\u0301 x", "  |           ^"]


@pytest.mark.parametrize("place", [0, 5_000, 9_990])
def test_a_long_line_is_cut_around_the_place(place):
    text = "x" * place + "HERE" + "x" * (9_996 - place)
    lines = render([Diagnostic("E007", "m", span(text, place, place + 4))]).splitlines()
    assert len(lines[2]) < 120
    column = lines[3].index("^")
    assert (lines[2][column : column + 4], lines[3].count("^")) == ("HERE", 4)


def test_notes_beyond_the_room_lose_their_lines_but_not_their_places():
    text = "a=1\nb=2\nc=3\nd=4\n"
    notes = tuple(Note(f"note {n}", span(text, 4 * n, 4 * n + 3)) for n in range(4))
    shown = render([Diagnostic("E102", "m", span(text, 0, 3), "label", notes, "help")])
    assert len(shown.splitlines()) <= MOST_LINES
    assert "note: note 3, at a.bertc:4:1" in shown
    assert shown.endswith("help: help")
    # Order is that of the text, and doubles are shown once.
    text = "abc"
    first, second = (Diagnostic("E007", f"m{n}", span(text, n, n + 1)) for n in (0, 1))
    other = Diagnostic("E101", "other", span(text, 0, 1, "--set #1"))
    lines = render([second, other, first, second]).splitlines()
    errors = [line for line in lines if line.startswith("error")]
    assert errors == ["error[E007]: m0", "error[E007]: m1", "error[E101]: other"]


@pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\u202e", "\u2028", "\U000e0001", "\r"])
def test_text_of_others_acts_on_no_terminal_and_json_keeps_its_value(sign):
    written = json.dumps({"label": f"a{sign}b日\t"}, ensure_ascii=False, indent=1)
    shown = diagnostics.for_terminal(written)
    assert sign not in shown
    assert "日" in shown
    assert json.loads(shown) == json.loads(written)
    assert sign not in diagnostics.for_terminal(f"two\n{sign} lines")
    signs = "\\x1b\\x9b\\u202e\\u2028\\ufeff\\x0a"
    assert diagnostics.escaped("é日 a\x1b\x9b\u202e\u2028\ufeff\n") == f"é日 a{signs}"


def test_commands_print_by_one_function():
    """All that they print is made safe there, but text with colours."""
    paths = (Path(bertc.__file__).parent / "cli").glob("*.py")
    texts = {path.name: path.read_text() for path in paths}
    assert {name for name, text in texts.items() if "typer.echo" in text} == {"options.py"}
    lines = "\n".join(texts.values()).splitlines()
    styled = [line for line in lines if "styled=True" in line]
    assert all("render(" in line or "preview(" in line for line in styled)


def test_near_words_are_named_and_long_lists_counted():
    words = {"hiden": "hidden", "Save-Every": "save_every", "l": "L", "chickens": ""}
    assert {word: nearest(word, ["hidden", "heads", "save_every", "L"]) for word in words} == words
    assert diagnostics.listed(["ab", "cd", "ef", "gh", "ij"], limit=7) == "ab, cd and 3 more"
    assert diagnostics.listed(["ab", "cd", "ef"], limit=7) == "ab, cd, ef"


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"  # as in tests
    for path in sorted(FOLDER.glob("*.txt")):
        texts = [f"{c.title}\n{c.spec}\n---\n{render(find(c.spec))}" for c in read(path)]
        path.write_text(BETWEEN.join(texts) + "\n", encoding="utf-8")
