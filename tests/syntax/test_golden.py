"""Wrong specs and what is said about them, as text pairs in ``golden/``.

A case is a title, the spec, ``---`` and the rendered diagnostics; ``=====`` stands between two.
``python tests/syntax/test_golden.py`` writes the renderings anew, for a person to read the diff.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bertc import passes, syntax
from bertc.diagnostics import Diagnostic, Diagnostics, render
from bertc.diagnostics.render import MOST_LINES

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
    diagnostics = Diagnostics()
    for program in syntax.load(spec + "\n", (), diagnostics):
        passes.complete(program, diagnostics)
    return diagnostics.found


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_rendering(case: Case) -> None:
    assert render(find(case.spec)) == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_shape(case: Case) -> None:
    for diagnostic in find(case.spec):
        text = render([diagnostic])
        assert len(text.splitlines()) <= MOST_LINES
        assert not diagnostic.message.endswith(".")
        assert not any(word in text.lower() for word in ("pydantic", "lark", "traceback"))


def fixable(case: Case) -> bool:
    """Whether applying the fixes leaves a spec without mistakes."""
    text = case.spec + "\n"
    found = find(case.spec)
    sources = {d.span.source for d in found if d.span}
    return len(sources) == 1 and not find(syntax.apply_fixes(sources.pop(), found)) and bool(text)


def test_four_in_five_have_a_help_that_removes_the_error() -> None:
    stuck = [case.title for case in CASES if not fixable(case)]
    assert len(CASES) >= 60
    assert len(stuck) <= len(CASES) / 5, stuck


def test_titles_are_unique() -> None:
    assert len({case.title for case in CASES}) == len(CASES)


def rewrite() -> None:
    for path in sorted(FOLDER.glob("*.txt")):
        texts = [f"{c.title}\n{c.spec}\n---\n{render(find(c.spec))}" for c in read(path)]
        path.write_text(BETWEEN.join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    rewrite()
