"""Swap parts of run folders between two runs of the same programs, and look for silence.

    nice python -m tests.campaigns.swaps

Two places hold runs of the same commands; their texts and tables differ, and with them vocabulary,
init and teacher. A case replaces a part in a copy of the first place by that of the second, and
runs a command. It is noticed where that ends with 76 (a resume) or 65, and names the part. Prints
a table; exits 1 if anything was silent.
"""

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns import forking, material

TEXT, TUNED, TAUGHT = material.TEXT, material.TUNED, material.TAUGHT
RESUMED = {"half": TEXT, "done": TEXT, "task": TUNED, "early": TUNED, "taught": TAUGHT}
PARTS = {
    ("half", "checkpoints"): ("resume", "eval", "fill", "export"),
    ("half", "lock.json"): ("resume", "eval", "fill", "report"),
    ("half", "metrics.jsonl"): ("resume", "eval", "report", "embed"),
    ("done", "model"): ("resume", "eval", "export", "report"),
    ("done", "model/model.safetensors"): ("resume", "fill", "export", "embed"),
    ("done", "tokenizer"): ("resume", "fill", "eval", "export"),
    ("task", "model/tokenizer.json"): ("predict", "embed"),
    ("task", "checkpoints"): ("resume", "predict"),
    ("early", "../hf"): ("resume",),
    ("taught", "../hf"): ("resume",),
}
"""Parts of runs, and the commands that have to notice."""


@dataclass(frozen=True)
class Case:
    """A part of a run that is another's, and a command."""

    run: str
    part: str
    command: str

    def words(self) -> list[str]:
        """The command line."""
        match self.command:
            case "resume":
                return ["train", RESUMED[self.run], "--out", self.run, "--resume"]
            case "fill":
                return ["fill", self.run, "the [MASK] barn"]
            case "export":
                return ["export", self.run, "--to", "out"]
            case "predict":
                return ["predict", self.run, "dev.tsv"]
            case "embed":
                return ["embed", self.run, "text.txt", "-o", "vectors.npy"]
            case command:
                return [command, self.run]


def swap(case: Case, root: Path) -> int:
    """Copy the first place, swap, run; the command's exit code."""
    place = Path(tempfile.mkdtemp(prefix="swap-", dir=root))
    try:
        shutil.copytree(root / "a", place / "a", symlinks=True)
        theirs, ours = (root / "b", place / "a")
        theirs, ours = theirs / case.run / case.part, ours / case.run / case.part
        remove(ours.resolve())
        (shutil.copytree if theirs.is_dir() else shutil.copy)(theirs, ours.resolve())
        os.environ["BERTC_CACHE"] = str(root / "cache")
        return forking.command(case.words(), place / "a")
    finally:
        sys.stdout.flush()
        os.chdir(root)
        shutil.rmtree(place, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def make(place: Path) -> int:
    """Fill a place with runs."""
    os.environ["BERTC_CACHE"] = str(place.parent / "cache")
    place.mkdir(parents=True)
    draw = random.Random(place.name)
    os.chdir(place)
    material.write_text(place, draw)
    material.write_tables(place, draw)
    for words in (
        ["train", TEXT, "--out", "done"],
        ["train", TUNED, "--out", "task"],
        ["train", TAUGHT, "--out", "taught"],
    ):
        if words[-1] == "task":
            shutil.copytree("done/model", "hf")
        if code := forking.command(words, place):
            return code
    material.halve(place / "done", place / "half")
    material.halve(place / "taught", place / "taught")
    shutil.copytree("task", "early")
    for part in ("checkpoints", "model", "losses.png"):
        remove(place / "early" / part)
    return 0


def main() -> int:
    """Make two places, run the cases, print the table."""
    forking.load_everything()
    tried, noticed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory(prefix="swaps-") as name:
        root = Path(name).resolve()
        for ended in forking.each(iter([root / "a", root / "b"]), make, 1, 300.0, waiting=1800.0):
            if ended.code:
                raise SystemExit(f"the material cannot be made: {ended.words}")
        cases = [Case(*at, command) for at, commands in PARTS.items() for command in commands]
        for ended in forking.each(iter(cases), lambda case: swap(case, root), 1, 60.0, 300.0):
            case = ended.task
            right = ended.code == (76 if case.command == "resume" else 65)
            tried[case.run, case.part] += 1
            noticed[case.run, case.part] += right
            last = [line for line in ended.words.splitlines() if line.startswith("error")]
            print(f"{'' if right else 'SILENT '}{case}: {ended.code} {' '.join(last)[:160]}")
    print("\n| part of another run | tried | noticed |\n|---|---|---|")
    for (run, part), count in tried.items():
        print(f"| {run}/{part} | {count} | {noticed[run, part]} |")
    print(f"| all | {tried.total()} | {noticed.total()} |")
    return noticed.total() < tried.total()


if __name__ == "__main__":
    sys.exit(main())
