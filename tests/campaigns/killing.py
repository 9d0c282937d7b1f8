"""Commands that are killed, and run twice at once in one folder: nothing lost or done twice.

A command trains several toy runs three times: undisturbed; killed with SIGKILL at random moments
after another run has finished, and begun again; and by two processes at once. The killed one has to
end with the scores and weights of the undisturbed one, and a run that was finished at a kill may
not be taken up again. Of two processes exactly one may take up each run.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS = ("hens", "ducks", "geese", "cackle", "quack", "in", "on", "the", "old", "red", "barn", "or")
State = dict[str, tuple[float, str, int]]
"""Of each finished run: its score, the sha256 of its weights, and how often it was taken up."""


@dataclass(frozen=True)
class Work:
    """A command that trains ``runs`` runs; ``finished`` are those of a folder."""

    words: tuple[str, ...]
    runs: int
    finished: Callable[[Path], State]


def sentences(path: Path) -> None:
    """Write a text of toy sentences."""
    draw = random.Random(7)
    lines = (" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(400))
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [f"{each}." + "\n" * (number % 6 == 5) for number, each in enumerate(lines)]
    path.write_text("\n".join(texts) + "\n")


def weights(path: Path) -> str:
    """The sha256 of a finished run's weights; "" where there are none."""
    file = path / "model" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.exists() else ""


def start(work: Work, out: Path, name: str, log: str) -> "subprocess.Popen[bytes]":
    """Begin, join or go on with the work in a folder."""
    command = [sys.executable, "-m", "bertc.cli", *work.words, "--out", name]
    environment = {**os.environ, "BERTC_CACHE": str(out.absolute() / "cache")}
    with open(out / log, "ab") as file:
        return subprocess.Popen(command, cwd=out, env=environment, stderr=file, stdout=file)


def killed(work: Work, out: Path, kills: int, seed: int, straight: float) -> list[str]:
    """Kill the work so often, and compare; the mistakes. Prints a row for each kill."""
    folder, draw = out / "killed", random.Random(seed)
    mistakes, seen = list[str](), [work.finished(folder)]
    print("| kill | after (s) | runs finished |")
    print("|---|---|---|")
    for number in range(1, kills + 1):
        began = time.monotonic()
        process = start(work, out, "killed", "killed.log")
        while process.poll() is None and len(work.finished(folder)) == len(seen[-1]):
            time.sleep(0.2)
        time.sleep(draw.uniform(0, 1.5) * straight / work.runs)
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if ended:
            mistakes.append(f"kill {number} came too late, the work had ended")
        seen.append(work.finished(folder))
        print(f"| {number} | {time.monotonic() - began:.0f} | {len(seen[-1])} |", flush=True)
    start(work, out, "killed", "killed.log").wait()
    after = work.finished(folder)
    for before in seen:
        mistakes += [
            f"{name} was finished, and changed"
            for name in before
            if before[name] != after.get(name)
        ]
    for name, (score, digest, _) in work.finished(out / "straight").items():
        if name not in after or after[name][:2] != (score, digest):
            mistakes.append(f"{name} ended with another score or other weights")
    taken = [times for _, _, times in after.values()]
    print(f"\n{len(after)} of {work.runs} runs finished; taken up: {taken}")
    return mistakes


def two_at_once(work: Work, out: Path) -> list[str]:
    """Do the work by two processes; the mistakes."""
    began = time.monotonic()
    both = [start(work, out, "both", f"both-{number}.log") for number in (1, 2)]
    codes = [process.wait() for process in both]
    seconds = time.monotonic() - began
    times = [taken for _, _, taken in work.finished(out / "both").values()]
    print(f"two at once: {len(times)} runs in {seconds:.0f} s, taken up: {times}")
    mistakes = [f"a process ended with {code}" for code in codes if code]
    if len(times) != work.runs or set(times) != {1}:
        mistakes.append("a run was lost, or trained twice")
    return mistakes


def campaign(about: str, prepare: Callable[[Path], None], work: Work) -> None:
    """Run all three in the folder that the command line names; ends with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prepare(given.out)
    began = time.monotonic()
    if code := start(work, given.out, "straight", "straight.log").wait():
        sys.exit(f"the undisturbed work ended with {code}")
    straight = time.monotonic() - began
    done = len(work.finished(given.out / "straight"))
    print(f"undisturbed: {done} runs in {straight:.0f} s\n", flush=True)
    mistakes = killed(work, given.out, given.kills, given.seed, straight)
    mistakes += two_at_once(work, given.out)
    print("\n".join(mistakes) or "\nnothing lost, nothing trained twice")
    sys.exit(bool(mistakes))
