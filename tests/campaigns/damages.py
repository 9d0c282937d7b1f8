"""Ways in which a file is damaged; each leaves ``path`` as something else than it was."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    match value:
        case dict():
            below = list(value.items())
        case list():
            below = list(enumerate(value))
        case _:
            below = []
    return [path, *(p for key, inner in below for p in _places(inner, (*path, key)))]


def _put(value: Any, place: tuple[Any, ...]) -> Any:
    if not place:
        return _MARK
    inner = value[place[0]]
    value[place[0]] = _put(inner, place[1:])
    return value


def _shallow(places: list[tuple[Any, ...]], draw: random.Random) -> tuple[Any, ...]:
    """A place, near the root as often as deep: of vocabularies most places are tokens."""
    depth = draw.choice(sorted({len(place) for place in places}))
    return draw.choice([place for place in places if len(place) == depth])


def _json(content: bytes, draw: random.Random, text: str) -> bytes:
    """JSON with ``text`` in place of one of its values; of a file of lines in one of them."""
    lines = [content.decode()]
    if not _is_json(lines[0]):
        lines = lines[0].rstrip("\n").split("\n")
    at = draw.choice([number for number, line in enumerate(lines) if _is_json(line)])
    whole = [json.loads(lines[at])]
    place = draw.choice([(0,), _shallow(_places(whole)[1:], draw)])
    marked = json.dumps(_put(whole, place), ensure_ascii=False)[1:-1]
    lines[at] = marked.replace(json.dumps(_MARK), text)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def of(path: Path) -> dict[str, Damage]:
    """The damages that a file can take, by name."""
    found = {**CONTENTS, **PLACES}
    if path.suffix not in (".json", ".jsonl"):
        return found
    for name, text in WRONG.items():
        found[f"{name} in it"] = _content(lambda c, d, t=text: _json(c, d, t))
        found[f"{name} alone"] = _content(lambda c, d, t=text: t.encode() + b"\n")
    return found
