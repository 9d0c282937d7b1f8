"""Damage every file that commands read, in every way, and look for what nobody should meet.

    nice python -m tests.campaigns.damage --jobs 2
    nice python -m tests.campaigns.damage --only "run: resume" --every 10
    nice python -m tests.campaigns.damage --only swaps
    nice python -m tests.campaigns.damage --case 1234          (prints what the command said)

A case is a copy of a toy folder, one file of it damaged, one command in a forked child. It fails
where the command ends with an internal error (70), by a signal, after more than 8 s of processor
time (2 s of a spec), or waiting; says words of another library; harms a file that was good; or,
where entries of the cache were swapped, ends with other weights than with a whole cache. Prints a
table by class and the failures; exits 1 if there are any.
"""

import hashlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import Table
from bertc.base.storage import durable
from tests.campaigns import forking, material
from tests.campaigns.material import TARGETS, Target
from tests.campaigns.options import read_options

SLOW_SECONDS = {"check": 2.0, "estimate": 2.0}
OTHER_SECONDS = 8.0
KNOWN_CODES = {0, 1, 2, 65, 66, 74, 76, 77, 78}
FOREIGN = re.compile(
    r"Traceback|Errno|pydantic_core|pydantic\.dev|validation error|pyarrow|\bArrow|\bKeyError"
    r"|\bTypeError|\bValueError|OSError|RuntimeError|Exception|thrift|HeaderToo|InvalidHeader"
    r"|os error|codec can't|NoneType"
    r"|line \d+ column \d+|expected value|invalid type|datasets\.[a-z]|Error:|Errors:|warn\("
)
"""Words of Python and of libraries; ``error:`` in lower case is bertc's own."""


@dataclass(frozen=True)
class Case:
    """One damage of one file, and one command after it."""

    number: int
    target: Target
    file: str
    damage: str
    command: str

    @property
    def title(self) -> str:
        """The class it is counted in."""
        return f"{self.target.name}: {self.command}"

    def __str__(self) -> str:
        words = " ".join(self.target.commands[self.command])
        return f"--case {self.number}: {self.file}, {self.damage}; bertc {words}"


def cases(root: Path) -> Iterator[Case]:
    """Every case, numbered."""
    number = 0
    for target in TARGETS:
        for file in sorted(root.glob(target.files)):
            if file.suffix == ".lock" or not (file.is_file() or target.made):
                continue
            for damage in SWAPS if target.made else damages_of(file):
                for command in target.commands:
                    yield Case(number, target, str(file.relative_to(root)), damage, command)
                    number += 1


def run_case(case: Case, root: Path) -> int:
    """Copy, damage, run; the command's exit code, or 99 where a good file was harmed."""
    place = Path(tempfile.mkdtemp(prefix="case-", dir=root.parent))
    try:
        for path in root.iterdir():
            if path.is_file():
                shutil.copy2(path, place)  # with its time, by which the cache knows it
            elif path.name in (*case.target.folders, "cache"):
                shutil.copytree(path, place / path.name)
        file = place / case.file
        draw = random.Random(case.number)
        {**SWAPS, **damages_of(file)}[case.damage](file, draw)
        os.environ["BERTC_CACHE"] = str(place / "cache")
        before = _good(place, case)
        code = forking.command(case.target.commands[case.command], place)
        for name, digest in _good(place, case).items() ^ before.items():
            if name in before and code not in (0, 70):
                print(f"HARMED: {name} {digest}", file=sys.stderr)
                return 99
        weights = "model/model.safetensors"
        if (made := case.target.made) and (
            code or (place / made / weights).read_bytes() != (root / "done" / weights).read_bytes()
        ):
            print("SPOILT: the weights are not those of a whole cache", file=sys.stderr)
            return 99
        if case.command == "resume" and "step-00000004/" in case.file and code:
            print("HARMED: the older checkpoint was good, and it was not resumed", file=sys.stderr)
            return 99
        return code
    finally:
        sys.stdout.flush()
        os.chdir(root)
        shutil.rmtree(place, ignore_errors=True)


def _good(place: Path, case: Case) -> dict[str, str]:
    """The content of all files of the target that nobody damaged."""
    found = {}
    for folder in case.target.folders:
        for path in sorted((place / folder).rglob("*")):
            name = str(path.relative_to(place))
            plain = path.is_file() and not path.is_symlink() and not name.startswith(case.file)
            if plain and path.name not in (".lock", "metrics.jsonl") and path.stat().st_size < 1e8:
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def verdict(ended: "forking.Ended[Case]") -> str:
    """Why a case failed; empty if it held."""
    limit = SLOW_SECONDS.get(ended.task.command, OTHER_SECONDS)
    match ended.code:
        case _ if ended.waited:
            return "hang"
        case 99:
            return "loss"
        case 70:
            return "internal error"
        case code if code < 0:
            return f"signal {-code}"
        case code if code not in KNOWN_CODES:
            return f"exit code {code}"
    if ended.cpu_seconds > limit:
        return f"slow ({ended.cpu_seconds:.1f} s)"
    foreign = FOREIGN.search(ended.words)
    return f"foreign words ({foreign[0]})" if foreign else ""


def main() -> int:
    """Make the material, run the cases, print the table."""
    chosen = read_options(__doc__, jobs=2, every=1, only="", case=-1)
    began = time.monotonic()
    forking.load_everything()
    with tempfile.TemporaryDirectory(prefix="damage-") as name:
        root = Path(name) / "material"
        (made,) = forking.each(iter([root]), material.make, 1, 300.0, waiting=1800.0)
        if made.code:
            raise SystemExit(f"the material cannot be made: {made.words}")
        picked = [case for case in cases(root) if chosen.only in case.title][:: chosen.every]
        if chosen.case >= 0:
            picked = [case for case in cases(root) if case.number == chosen.case]
        failures, tried = _run(picked, root, chosen.jobs, chosen.case >= 0)
    lost = Counter(case.title for case, _ in failures)
    rows = [(title, count, count - lost[title]) for title, count in tried.items()]
    rows.append(("all", tried.total(), tried.total() - len(failures)))
    print(Table(("class", "tried", "held"), rows))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if failures else 0


def _run(
    picked: list[Case], root: Path, jobs: int, loud: bool
) -> tuple[list[tuple[Case, str]], Counter[str]]:
    failures, tried = list[tuple[Case, str]](), Counter[str]()
    for ended in forking.each(iter(picked), lambda case: run_case(case, root), jobs, OTHER_SECONDS):
        tried[ended.task.title] += 1
        why = verdict(ended)
        if loud:
            print(f"{ended.task}\n{ended.words}exit code {ended.code}")
        if why:
            failures.append((ended.task, why))
            last = ended.words.strip().splitlines()[-3:]
            print(f"{why}: {ended.task}", *(f"    {line[:150]}" for line in last), sep="\n")
            sys.stdout.flush()
    return failures, tried


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


CONTENTS: dict[str, Damage] = {
    "emptied": _content(lambda c, d: b""),
    "cut in half": _content(lambda c, d: c[: len(c) // 2]),
    "cut somewhere": _content(lambda c, d: c[: d.randrange(max(1, len(c)))]),
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
    "lines shuffled": _content(lambda c, d: b"\n".join(d.sample(s := c.split(b"\n"), len(s)))),
    "a long line": _content(lambda c, d: _line(c, d, b"x " * 500_000)),
}


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
    "missing": lambda path, draw: path.unlink(),
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
    lines[at] = json.dumps(root, ensure_ascii=False)[1:-1].replace(json.dumps(_MARK), text)
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


def damages_of(path: Path) -> dict[str, Damage]:
    """The damages that a file can take, by name."""
    damages = {**CONTENTS, **PLACES}
    if path.name in BOMBS:
        damages["a bomb"] = BOMBS[path.name]
    for name, text in WRONG.items() if path.suffix in (".json", ".jsonl") else ():
        damages[f"{name} in it"] = _content(lambda c, d, t=text: _json(c, d, t))
        damages[f"{name} alone"] = _content(lambda c, d, t=text: t.encode() + b"\n")
    return damages


if __name__ == "__main__":
    sys.exit(main())
