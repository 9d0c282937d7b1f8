"""Ways in which a file is damaged; each leaves ``path`` as something else than it was."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertc.base.storage import durable

Damage = Callable[[Path, random.Random], None]

WRONG = {
    "null": "null", "text": '"x"', "negative": "-1", "fraction": "0.5", "list": "[]",
    "object": "{}", "huge": "1" + "0" * 400, "NaN": "NaN", "deep": "[" * 100_000,
    "half a surrogate": '"\\ud800"',
}  # fmt: skip
"""JSON put in the place of a value somewhere in a file, and of the whole."""

_MARK = "\0a place\0"


def _content(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(path: Path, draw: random.Random) -> None:
        path.write_bytes(change(path.read_bytes(), draw))

    return damage


def _flip(content: bytes, draw: random.Random, times: int) -> bytes:
    changed = bytearray(content)
    for _ in range(times if content else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _line(content: bytes, draw: random.Random, line: bytes) -> bytes:
    lines = content.split(b"\n")
    lines.insert(draw.randrange(len(lines)), line)
    return b"\n".join(lines)


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(max(1, len(content)))]


CONTENTS: dict[str, Damage] = {
    "emptied": _content(lambda c, d: b""),
    "cut in half": _content(lambda c, d: c[: len(c) // 2]),
    "cut somewhere": _content(_cut),
    "without its last byte": _content(lambda c, d: c[:-1]),
    "a bit flipped": _content(lambda c, d: _flip(c, d, 1)),
    "20 bits flipped": _content(lambda c, d: _flip(c, d, 20)),
    "zeros": _content(lambda c, d: bytes(len(c))),
    "garbage": _content(lambda c, d: d.randbytes(len(c))),
    "garbage appended": _content(lambda c, d: c + d.randbytes(100)),
    "a byte that is no UTF-8": _content(lambda c, d: _line(c, d, b"caf\xe9")),
    "NULs appended": _content(lambda c, d: c + bytes(4096)),
    "a byte order mark": _content(lambda c, d: b"\xef\xbb\xbf" + c),
    "a web page": _content(lambda c, d: b"<!DOCTYPE html>\n<html><body>404</body></html>\n"),
    "lines shuffled": _content(
        lambda c, d: b"\n".join(d.sample(c.split(b"\n"), c.count(b"\n") + 1))
    ),
    "a long line": _content(lambda c, d: _line(c, d, b"x " * 500_000)),
}


def _missing(path: Path, draw: random.Random) -> None:
    path.unlink()


def _instead(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path, draw: random.Random) -> None:
        path.unlink()
        make(path)

    return damage


def _sibling(path: Path, draw: random.Random) -> None:
    others = sorted(p for p in path.parent.iterdir() if p != path and p.is_file())
    if others:
        path.write_bytes(draw.choice(others).read_bytes())
    else:
        path.unlink()


PLACES: dict[str, Damage] = {
    "missing": _missing,
    "a folder": _instead(Path.mkdir),
    "a pipe": _instead(os.mkfifo),
    "a link to nowhere": _instead(lambda path: path.symlink_to("nowhere")),
    "3 GB of zeros behind": lambda path, draw: os.truncate(path, 3 << 30),
    "another file's content": _sibling,
}
if os.geteuid():
    PLACES["no permission"] = lambda path, draw: path.chmod(0)


def _json(content: bytes, draw: random.Random, text: str) -> bytes:
    """JSON with ``text`` in place of one of its values; of a file of lines in one of them."""
    lines = [content.decode()]
    if not _is_json(lines[0]):
        lines = lines[0].rstrip("\n").split("\n")
    at = draw.choice([number for number, line in enumerate(lines) if _is_json(line)])
    root = parent = [json.loads(lines[at])]
    key: Any = 0
    deeper = 0.5  # near the root as often as deep: of vocabularies most places are tokens
    while isinstance(parent[key], dict | list) and parent[key] and draw.random() < deeper:
        parent, deeper = parent[key], 0.75
        key = draw.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
    parent[key] = _MARK
    marked = json.dumps(root, ensure_ascii=False)[1:-1]
    lines[at] = marked.replace(json.dumps(_MARK), text)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _swap(path: Path, other: Path) -> None:
    aside = path.rename(path.with_name("aside"))
    other.rename(path)
    aside.rename(other)


def _copy_over(path: Path, other: Path) -> None:
    durable.remove(path)
    (shutil.copytree if other.is_dir() else shutil.copy2)(other, path)


def _with_another(change: Callable[[Path, Path], object], like: bool) -> Damage:
    def damage(path: Path, draw: random.Random) -> None:
        cache = next(folder for folder in path.parents if folder.name == "cache")
        kind, _, *inside = path.relative_to(cache).parts
        pattern = [kind, "*", *inside] if like else ["*", "*", *("*" for _ in inside)]
        if others := sorted({*cache.glob("/".join(pattern))} - {path}):
            change(path, draw.choice(others))

    return damage


SWAPS = {
    "swapped with its like": _with_another(_swap, like=True),
    "swapped with any": _with_another(_swap, like=False),
    "replaced by its like": _with_another(_copy_over, like=True),
}
"""What happens to entries of a cache, and to the files in them."""

_PREPENDED = {"type": "Prepend", "prepend": "a " * 500}
BOMBS: dict[str, Damage] = {
    "tokenizer.json": _content(
        lambda c, d: json.dumps(
            json.loads(c) | {"normalizer": {"type": "Sequence", "normalizers": [_PREPENDED] * 3000}}
        ).encode()
    ),
    "vocab.txt": _content(lambda c, d: c + b"".join(b"w%d\n" % n for n in range(3_000_000))),
}
"""Vocabularies that take minutes to read, by the name of their file."""


def of(path: Path) -> dict[str, Damage]:
    """The damages that a file can take, by name."""
    damages = {**CONTENTS, **PLACES}
    if path.name in BOMBS:
        damages["a bomb"] = BOMBS[path.name]
    for name, text in WRONG.items() if path.suffix in (".json", ".jsonl") else ():
        damages[f"{name} in it"] = _content(lambda c, d, t=text: _json(c, d, t))
        damages[f"{name} alone"] = _content(lambda c, d, t=text: t.encode() + b"\n")
    return damages
