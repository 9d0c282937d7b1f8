"""The size of the house: budgets, which only fall."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import FILES, PACKAGE, ROOMS, arrows, nodes, room_of

ROOT = PACKAGE.parent
GOALS = {
    "core": 62_000,
    "lab": 8_900,
    "tests": 39_000,
    "words of docs": 32_000,
    "lines of README": 120,
    "lines a kind": 390,
    "floors": 14,
    "vague names": 150,
}
"""What the house is to come to; lines of Python but for docs and README."""
BUDGETS = {
    "core": 64_150,
    "lab": 11_100,
    "tests": 41_210,
    "words of docs": 33_000,
    "lines of README": 120,
    "lines a kind": 390,
    "floors": 10,
    "vague names": 30,
}
"""What the house may have: a figure falls, and rises by what an issue grants alone."""
VAGUE = {"each", "found", "own", "kept", "whole", "given"}
"""Names that do not say what they hold."""


def lines(paths: list[Path]) -> int:
    """Lines of files in all."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def kinds() -> int:
    """Classes of ``bertc/ir`` that a spec names: those with a ``kind``."""
    fields = (
        node
        for path in (PACKAGE / "ir").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.target.id == "kind"
    )
    return sum(1 for _ in fields)


def vague_names() -> int:
    """How often a vague name is bound, as a variable or a parameter."""
    bound = (
        node.id if isinstance(node, ast.Name) else node.arg
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    return sum(name in VAGUE for name in bound)


def floors() -> int:
    """Rooms on the longest way down."""

    @cache
    def height(room: str) -> int:
        below = {room_of(n) for name, to in arrows().items() if room_of(name) == room for n in to}
        return 1 + max((height(other) for other in below - {room, ""}), default=0)

    return max(map(height, ROOMS))


@cache
def figures() -> dict[str, int]:
    """What the house has."""
    lab = [path for path in FILES if path.is_relative_to(PACKAGE / "lab")]
    core = lines([path for path in FILES if path not in set(lab)])
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    return {
        "core": core,
        "lab": lines(lab),
        "tests": lines([*(ROOT / "tests").rglob("*.py")]),
        "words of docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "lines of README": lines([ROOT / "README.md"]),
        "lines a kind": (core + lines(lab)) // kinds(),
        "floors": floors(),
        "vague names": vague_names(),
    }


@pytest.mark.parametrize("what", BUDGETS)
def test_the_house_stays_within_its_budget(what: str) -> None:
    assert figures()[what] <= BUDGETS[what]


if __name__ == "__main__":
    for what, figure in figures().items():
        print(f"{what:20} {figure:8,} {BUDGETS[what]:8,} {GOALS[what]:8,}")
