"""The text files that ship with the package: the grammar and the specs."""

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def folder(name: str) -> Path:
    """The folder ``grammar`` or ``specs``, in an installed package or beside it in a checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


@cache
def shipped_specs() -> dict[str, Path]:
    """Shipped specs: files by name."""
    return {path.stem: path for path in sorted(folder("specs").glob("*.bertc"))}
