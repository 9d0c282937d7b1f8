"""The closed list of diagnostic codes, with the page that ``bertc explain`` shows for each.

The pages are data, in ``codes.toml``. E0xx: the text cannot be read; E1xx: a name or value is
wrong; E2xx: settings disagree; E3xx: ``extends`` and files. R1xx: remarks, on what is no mistake.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bertc.base.diagnostics.errors import UsageError
from bertc.base.diagnostics.near import listed, nearest


@dataclass(frozen=True)
class Page:
    """The explanation of a code: its meaning, a wrong spec and a right one.

    ``beside`` has the other files that the examples need, by name.
    """

    title: str
    text: str
    bad: str
    good: str
    beside: dict[str, str] = field(default_factory=dict)


@cache
def codes() -> dict[str, Page]:
    """All codes with their pages, read from ``codes.toml``."""
    import tomllib

    path = Path(__file__).with_name("codes.toml")
    pages = tomllib.loads(path.read_text(encoding="utf-8"))
    return {code: Page(**fields) for code, fields in pages.items()}


def explain(code: str) -> str:
    """The page of a code, as plain text.

    Raises:
        UsageError: if there is no such code.
    """
    wanted = code.strip().upper()
    page = codes().get(wanted)
    if page is None:
        near = nearest(wanted, codes())
        help = f"bertc explain {near}" if near else "codes: " + listed(codes(), limit=400)
        raise UsageError(f"there is no code `{code[:20]}`", help)
    parts = [f"{wanted}: {page.title}", page.text.strip()]
    parts += [f"Wrong:\n\n{_indented(page.bad)}", f"Right:\n\n{_indented(page.good)}"]
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.strip().splitlines())
