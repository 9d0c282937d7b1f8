"""Wrong specs and what is said about them, as text pairs in ``golden/``.

A case is a title, the spec, ``---`` and the rendered diagnostics; ``=====`` stands between two.
``python tests/lang/test_golden.py`` writes the renderings anew, for a person to read the diff.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bertc.base.diagnostics import Diagnostic, render
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
    assert len(cases) >= 60
    assert len(stuck) <= len(cases) / 4, stuck


KEPT = {
    "objective=plm(block=60, unit=pieces) seq=128": "objective=plm(block=32, unit=pieces) seq=128",
    "objective=mlm(p=20%)+sop+2*tlm(p=10%) data=pairs(en='a', fr='b')": (
        "objective=mlm(p=20%) + 2*tlm(p=10%) data=pairs(en='a', fr='b')"
    ),
    "objective=rtd+mlm generator=network(hidden=100, heads=3, tie=none)": (
        "objective=rtd+mlm generator=network(hidden=100, heads=2, tie=none)"
    ),
    "heads=[6, 12] layers=2 head_dim=64 attention=relative(clamp=5)": (
        "heads=[6, 12] layers=2 head_dim=64 attention=relative(clamp=5, untie=true)"
    ),
    "objective=plm memory=24": "objective=plm memory=24\nformat=stream\nattention=relative",
    "objective=plm memory=24 attention=full": (
        "objective=plm memory=24 attention=relative\nformat=stream"
    ),
    "average=ema(0.1%) steps=100": "average=ema(1) steps=100",
    "optimizer=lamb(1e-3, warmup=2000, clip=0.5) steps=1000": (
        "optimizer=lamb(1e-3, warmup=1%, clip=0.5) steps=1000"
    ),
    "grow=identity(moments=carry) stage 'a' {layers=2 steps=1} stage 'b' {layers=4 steps=9}": (
        "grow=stack(moments=carry) stage 'a' {layers=2 steps=1} stage 'b' {layers=4 steps=9}"
    ),
}


@pytest.mark.parametrize("spec", KEPT)
def test_fixes_keep_what_else_is_written_and_lead_to_a_spec_that_checks(spec):
    mistakes = find(spec)
    (source,) = {d.span.source for d in mistakes if d.span}
    mended = apply_fixes(source, mistakes)
    assert mended.strip() == KEPT[spec]
    assert find(mended) == []


def test_titles_are_unique():
    assert len({case.title for case in CASES}) == len(CASES)


def rewrite() -> None:
    for path in sorted(FOLDER.glob("*.txt")):
        texts = [f"{c.title}\n{c.spec}\n---\n{render(find(c.spec))}" for c in read(path)]
        path.write_text(BETWEEN.join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    rewrite()
