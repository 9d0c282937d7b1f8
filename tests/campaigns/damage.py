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

import argparse
import hashlib
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertc.base.diagnostics import Table
from tests.campaigns import damages, forking, material
from tests.campaigns.material import TARGETS, Target

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
            for damage in damages.SWAPS if target.made else damages.of(file):
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
        {**damages.SWAPS, **damages.of(file)}[case.damage](file, draw)
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
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--every", type=int, default=1, help="a sample: each n-th case")
    options.add_argument("--only", default="", help="classes that contain this")
    options.add_argument("--case", type=int, help="one case, with what it said")
    chosen = options.parse_args()
    began = time.monotonic()
    forking.load_everything()
    with tempfile.TemporaryDirectory(prefix="damage-") as name:
        root = Path(name) / "material"
        _make(root)
        picked = [case for case in cases(root) if chosen.only in case.title][:: chosen.every]
        if chosen.case is not None:
            picked = [case for case in cases(root) if case.number == chosen.case]
        failures, tried = _run(picked, root, chosen.jobs, chosen.case is not None)
    lost = Counter(case.title for case, _ in failures)
    rows = [(title, count, count - lost[title]) for title, count in tried.items()]
    rows.append(("all", tried.total(), tried.total() - len(failures)))
    print(Table(("class", "tried", "held"), rows))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if failures else 0


def _make(root: Path) -> None:
    def train(words: list[str]) -> None:
        if code := forking.command(words, root):
            raise SystemExit(f"{words} ended with {code}")

    def build(_: object) -> int:
        os.environ["BERTC_CACHE"] = str(root / "cache")
        material.make(root, train)
        return 0

    (ended,) = forking.each(iter([root]), build, 1, 300.0, waiting=1800.0)
    if ended.code:
        raise SystemExit(f"the material cannot be made: {ended.words}")


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


if __name__ == "__main__":
    sys.exit(main())
