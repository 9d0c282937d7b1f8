"""Where the goldens lie, and how they are read and written."""

import difflib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

GOLDENS = Path(__file__).parent / "goldens"
LINES = 40


@cache
def read(name: str) -> Any:
    """A golden by its file's name; those that end with .xz are packed."""
    content = (GOLDENS / name).read_bytes()
    return json.loads(lzma.decompress(content) if name.endswith(".xz") else content)


def write(name: str, value: Any) -> None:
    """Put a golden in its place."""
    GOLDENS.mkdir(exist_ok=True)
    if name.endswith(".xz"):
        content = lzma.compress(json.dumps(value).encode(), preset=9)
    else:
        rows = (f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in value.items())
        content = ("{\n" + ",\n".join(rows) + "\n}\n").encode()
    (GOLDENS / name).write_bytes(content)


def difference(before: str, after: str) -> str:
    """What changed between two texts, the first lines of it."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) == len(new):  # in no time, however much differs
        pairs = zip(old, new, strict=True)
        lines = [line for a, b in pairs if a != b for line in (f"-{a}", f"+{b}")]
    else:
        lines = list(difflib.unified_diff(old, new, "golden", "now", n=2, lineterm=""))
    more = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join([*lines[:LINES], *more])
