"""A run with trackers and `bertc watch` beside the same run alone, in turns.

    python -m tests.bench.trackers SPEC [--set key=value] [--rounds 3] [--log wandb] [--json FILE]

Seconds of training and evaluations as the runs note them, their ratio in each round, and processor
seconds that trackers and watch took, as a share of what the machine has in that time.
"""

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from bertc.planning.cores import available_cores

LOOK_SECONDS = 4.0
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--log", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    command = ["train", options.spec, *(w for each in options.set for w in ("--set", each))]
    trackers = [w for each in options.log or ["tensorboard"] for w in ("--log", each)]
    rounds = []
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.rounds):
            both = [(trackers, True), ([], False)]
            seconds, cpu = {}, 0.0
            for words, watched in both if number % 2 else both[::-1]:
                out = Path(place) / f"{number}-{watched}"
                seconds[watched], cost = timed([*command, "--out", str(out), *words], out, watched)
                cpu += cost
            rounds.append(
                {
                    "alone": seconds[False],
                    "with": seconds[True],
                    "ratio": seconds[True] / seconds[False],
                    "share": cpu / (seconds[True] * available_cores()),
                }
            )
            print({name: round(value, 4) for name, value in rounds[-1].items()}, flush=True)
    for name in ("ratio", "share"):
        print(f"median {name} {statistics.median(each[name] for each in rounds):.4f}")
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1) + "\n")


def timed(words: list[str], out: Path, watched: bool) -> tuple[float, float]:
    """Seconds of a run, and processor seconds of what goes beside it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = subprocess.Popen([sys.executable, "-m", "bertc.cli", *words], **quiet)
    watch = None
    if watched:
        ours, theirs = pty.openpty()
        threading.Thread(target=read_all, args=(ours,), daemon=True).start()
        command = [sys.executable, "-m", "bertc.cli", "watch", str(out)]
        watch = subprocess.Popen(command, stdout=theirs, stderr=theirs, start_new_session=True)
    cpu: dict[int, float] = {}
    while run.poll() is None:
        time.sleep(LOOK_SECONDS)  # seldom, and with nothing beside the run too: looking costs
        cpu |= processor_seconds(watch.pid if watch else 0, out)
    if watch:
        watch.terminate()
        watch.wait()
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    return last["seconds"], sum(cpu.values())


def read_all(terminal: int) -> None:
    """Read what is written to a terminal, so that its writer never waits."""
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass


def processor_seconds(watch: int, out: Path) -> dict[int, float]:
    """Processor seconds so far by process, of watch and of the sessions of trackers."""
    stats: dict[int, list[str]] = {}
    sessions = {watch} - {0}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        stats[int(folder.name)] = words
        if b"bertc.trackers.beside" in line and str(out).encode() in line:
            sessions.add(int(words[3]))
    return {
        pid: (int(words[11]) + int(words[12])) / TICKS
        for pid, words in stats.items()
        if int(words[3]) in sessions
    }


if __name__ == "__main__":
    main()
