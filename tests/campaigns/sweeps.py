"""Searches that are killed, and two at once on one store: nothing finished is lost or done twice.

    OMP_NUM_THREADS=1 nice python -m tests.campaigns.sweeps --out OUT [--kills 5] [--seed 0]

A sweep of twelve trials on toy sentences runs three times: undisturbed; killed with SIGKILL at
random moments and begun again; and by two processes at once. The killed one has to end with the
trials, scores and weights of the undisturbed one, and a trial that was finished at a kill may not
be taken up again. Of two processes exactly one may take up each trial. Prints tables, and ends
with 1 if anything differs. ``docs/how-to/search.md`` has what came out.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bertc.runs import attempts
from bertc.search.store import read_store, run_folder

TRIALS = 12
STEPS = 60
WORDS = ("hens", "ducks", "geese", "cackle", "quack", "in", "on", "the", "old", "red", "barn", "or")
SPEC = f"""
layers = {{1..2}}  hidden = 32  heads = 2  ffn = 64  dropout = {{0..0.2}}
vocab = wordpiece(60)  data = files("farm.txt")  holdout = 10%
objective = mlm  seq = 16  batch = 8  steps = {STEPS}  eval_every = 20  save_every = 5
optimizer = adamw(lr={{1e-4..3e-2:log}}, warmup=10%)
device = cpu  compile = off  precision = fp32
"""
State = dict[int, tuple[float, str, int]]
"""Of each finished trial: its score, the sha256 of its weights, and how often it was taken up."""


def prepare(out: Path) -> None:
    """Write the sentences and the spec."""
    draw = random.Random(7)
    sentences = (" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(400))
    out.mkdir(parents=True, exist_ok=True)
    lines = [f"{each}." + "\n" * (number % 6 == 5) for number, each in enumerate(sentences)]
    (out / "farm.txt").write_text("\n".join(lines) + "\n")
    (out / "toy.bertc").write_text(SPEC)


def start(out: Path, name: str, log: str) -> "subprocess.Popen[bytes]":
    """Begin, join or go on with the sweep in a folder."""
    command = [sys.executable, "-m", "bertc.cli", "sweep", "toy.bertc", "--for", "mlm"]
    command += ["--trials", str(TRIALS), "--out", name]
    environment = {**os.environ, "BERTC_CACHE": str(out.absolute() / "cache")}
    with open(out / log, "ab") as file:
        return subprocess.Popen(command, cwd=out, env=environment, stderr=file, stdout=file)


def finished(folder: Path) -> State:
    """The finished trials of a sweep; {} before there is a store."""
    if not (folder / "sweep.db").exists():
        return {}
    store, _ = read_store(folder)
    return {
        trial.number: (trial.value, weights(path), len(attempts.read(path / "attempts.jsonl")))
        for trial in store.trials
        if trial.state.name == "COMPLETE"
        for path in [run_folder(folder, trial.number)]
    }


def weights(path: Path) -> str:
    """The sha256 of a finished run's weights; "" of a trial that is another's twin."""
    file = path / "model" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.exists() else ""


def drawn(folder: Path) -> dict[int, Any]:
    """The values of each trial."""
    return {trial.number: trial.params for trial in read_store(folder)[0].trials}


def killed(out: Path, kills: int, seed: int, straight: float) -> list[str]:
    """Run a sweep, kill it so often, and compare; the mistakes. Prints a row for each kill."""
    folder, draw = out / "killed", random.Random(seed)
    mistakes, seen = list[str](), list[State]()
    begins = straight / TRIALS  # time that a process takes to begin, about
    print("| kill | after (s) | trials finished | under way | it went on from step |")
    print("|---|---|---|---|---|")
    for number in range(1, kills + 1):
        process = start(out, "killed", "killed.log")
        seconds = draw.uniform(0.5, 1.2) * straight / (kills + 1) + begins
        time.sleep(seconds)
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if ended:
            mistakes.append(f"kill {number} came too late, the sweep had ended")
        before = finished(folder)
        at = len(before)
        path = run_folder(folder, at)
        saved = [int(p.name.split("-")[-1]) for p in path.glob("checkpoints/step-*")]
        print(
            f"| {number} | {seconds:.1f} | {at} | {at + 1} | {max(saved, default=0)} |", flush=True
        )
        seen.append(before)
    start(out, "killed", "killed.log").wait()
    after = finished(folder)
    for before in seen:
        mistakes += [
            f"trial {n + 1} was finished, and changed" for n in before if before[n] != after.get(n)
        ]
    if drawn(folder) != drawn(out / "straight"):
        mistakes.append("the killed sweep drew other values than the undisturbed one")
    for n, (score, digest, _) in finished(out / "straight").items():
        if n not in after or after[n][:2] != (score, digest):
            mistakes.append(f"trial {n + 1} ended with another score or other weights")
    print(
        f"\n{len(after)} of {TRIALS} trials finished; taken up: {[a for _, _, a in after.values()]}"
    )
    return mistakes


def two_at_once(out: Path) -> list[str]:
    """Run a sweep by two processes; the mistakes. Prints how the trials were shared."""
    began = time.monotonic()
    both = [start(out, "both", f"both-{number}.log") for number in (1, 2)]
    codes = [process.wait() for process in both]
    seconds = time.monotonic() - began
    logs = [(out / f"both-{number}.log").read_text() for number in (1, 2)]
    shares = [
        sum(f"trial {n} of {TRIALS}: layers" in log for n in range(1, TRIALS + 1)) for log in logs
    ]
    times = [taken for _, _, taken in finished(out / "both").values()]
    print("| process | trials |\n|---|---|")
    print("".join(f"| {n} | {share} |\n" for n, share in enumerate(shares, 1)), end="")
    print(f"\n{len(times)} finished in {seconds:.0f} s, each taken up once: {set(times) == {1}}")
    mistakes = [f"a process ended with {code}" for code in codes if code]
    if len(times) != TRIALS or set(times) != {1} or sum(shares) != TRIALS:
        mistakes.append("a trial was lost, or trained twice")
    return mistakes


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prepare(given.out)
    began = time.monotonic()
    if code := start(given.out, "straight", "straight.log").wait():
        sys.exit(f"the undisturbed sweep ended with {code}")
    straight = time.monotonic() - began
    print(
        f"undisturbed: {len(finished(given.out / 'straight'))} trials in {straight:.0f} s\n",
        flush=True,
    )
    mistakes = killed(given.out, given.kills, given.seed, straight) + two_at_once(given.out)
    print("\n".join(mistakes) or "\nnothing lost, nothing trained twice")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
