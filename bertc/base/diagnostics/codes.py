"""The closed list of diagnostic codes; their pages, in ``codes.toml``, are data."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import indent
from types import MappingProxyType
from typing import NamedTuple

from bertc.base.diagnostics.errors import UsageError, nearest

GROUPS = {
    "E0": "The text cannot be read", "E1": "A name or a value is wrong", "E2": "Settings disagree",
    "E3": "Bases, and files that decide settings",
    "E4": "Word vectors, and vocabularies made from others", "R1": "Remarks, on what is no mistake",
}  # fmt: skip
"""The subject of codes, by how they begin."""


class Page(NamedTuple):
    """The explanation of a code: its meaning, a wrong spec and a right one.

    ``beside`` has the other files that the examples need, by name.
    """

    title: str
    text: str
    bad: str
    good: str
    beside: Mapping[str, str] = MappingProxyType({})


@cache
def codes() -> dict[str, Page]:
    """All codes with their pages, read from ``codes.toml``."""
    import tomllib

    path = Path(__file__).with_name("codes.toml")
    pages = tomllib.loads(path.read_text(encoding="utf-8"))
    return {code: Page(**fields) for code, fields in pages.items()}


def explain(code: str = "") -> str:
    """The page of a code, or the titles of all codes that begin so, as plain text."""
    wanted = code.strip().upper()
    page = codes().get(wanted)
    if page is None:
        begun = {name: page.title for name, page in codes().items() if name.startswith(wanted)}
        if begun:
            return "\n".join(_titles(dict(sorted(begun.items()))))
        near = nearest(wanted, codes())
        help = f"bertc explain {near}" if near else "bertc explain lists all codes"
        raise UsageError(f"there is no code `{code[:20]}`", help)
    parts = [f"{wanted}: {page.title}", page.text.strip()]
    for name, example in (("Wrong", page.bad), ("Right", page.good)):
        parts.append(f"{name}:\n\n{indent(example.strip(), '    ')}")
    return "\n\n".join(parts)


def _titles(titles: Mapping[str, str]) -> Iterator[str]:
    """Lines of codes with their titles, under a heading for each group."""
    for group, meaning in GROUPS.items():
        lines = [f"  {name}  {title}" for name, title in titles.items() if name.startswith(group)]
        yield from [f"{group}xx: {meaning}", *lines] if lines else []
