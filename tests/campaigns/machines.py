"""Runs on two "machines": network namespaces joined by 1 Gbit and 20 ms, two processes each.
nice python -m tests.campaigns.machines [--only partition] [--log FILE]

In each case something happens to a run in its middle. It has to end by itself within the stated
time, be resumed, and then have the losses of the run that nothing happened to. Linux, as root.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.campaigns.options import read_options
from tests.run.conftest import WORDS, lines
from tests.run.test_ranks import command_line

NAMES, PORT = ("bertc-a", "bertc-b"), 29_517
ADDRESSES = {name: f"10.99.77.{number}" for number, name in enumerate(NAMES, 1)}
STEPS, AT = 60, 25
LIMIT_SECONDS = 240.0
"""Seconds in which a disturbed run has to end or finish."""
SPEC = f"layers=2 hidden=32 heads=2 seq=24 batch=8 steps={STEPS} save_every=10 eval_every=30 "
SPEC += "log_every=1 vocab=wordpiece(120) data=files('farm.txt', sentences=lines) holdout=20% "
SPEC += "dropout=0 precision=fp32 device=cpu compile=off"


def ip(*words: str, wrong_is_fine: bool = False) -> None:
    """Run ``ip`` or ``tc``; raise what it says unless it may fail."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode and not wrong_is_fine:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def inside(name: str, *words: str) -> None:
    ip("ip", "netns", "exec", name, *words)


@contextmanager
def network() -> Iterator[None]:
    """Two namespaces, joined by a cable of 1 Gbit and 10 ms each way."""
    try:
        for name in NAMES:
            ip("ip", "netns", "add", name)
        ends = [word for n in NAMES for word in (("peer",) * (n != NAMES[0]) + ("name", n))]
        ip("ip", "link", "add", *ends[:2], "type", "veth", *ends[2:])
        for name, address in ADDRESSES.items():
            ip("ip", "link", "set", name, "netns", name)
            inside(name, "ip", "addr", "add", f"{address}/24", "dev", name)
            for device in (name, "lo"):
                inside(name, "ip", "link", "set", device, "up")
            shaped = (name, "tc", "qdisc", "add", "dev", name, "root")
            try:
                inside(*shaped, "netem", "delay", "10ms", "rate", "1gbit")
            except OSError as error:
                print(f"no 20 ms, 1 Gbit alone: {error}")
                inside(*shaped, "tbf", "rate", "1gbit", "burst", "1mbit", "latency", "50ms")
        yield
    finally:
        for name in NAMES:
            ip("ip", "netns", "del", name, wrong_is_fine=True)


def agent(name: str) -> "subprocess.Popen[bytes]":
    """Start torchrun with two processes on a machine."""
    address = ADDRESSES[name]
    command = [
        *("ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes=2", "--nproc-per-node=2", "--max-restarts=0", "--rdzv-backend=c10d"),
        *("--rdzv-id=1", f"--rdzv-endpoint={ADDRESSES[NAMES[0]]}:{PORT}"),
        *(f"--rdzv-conf=is_host={name == NAMES[0]}", f"--local-addr={address}"),
        *("-m", "bertc.cli", "train", "farm.bertc", "--out", "run", "--resume"),
    ]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": name, "OMP_NUM_THREADS": "1"}
    with open(f"{name}.log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def processes(name: str, workers: bool) -> list[int]:
    """The process ids of a machine: of the run's processes, or all."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    ids = [int(word) for word in listed.stdout.split()]
    words = {i: command_line(i) for i in ids}  # none if it has ended
    return [i for i in ids if not workers or words[i] and b"torch.distributed.run" not in words[i]]


def signalled(ids: list[int], number: int) -> None:
    for process in ids:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def slow() -> None:
    """Stop a process for 20 seconds."""
    one = processes(NAMES[1], workers=True)[:1]
    signalled(one, signal.SIGSTOP)
    time.sleep(20)
    signalled(one, signal.SIGCONT)


def plug(how: str) -> None:
    """Plug the cable: ``up`` or ``down``."""
    inside(NAMES[1], "ip", "link", "set", NAMES[1], how)


def partition() -> None:
    """Unplug the cable for 30 seconds."""
    plug("down")
    time.sleep(30)
    plug("up")


def power_cut() -> None:
    """Unplug the cable for good, and kill the machine: nothing says that it is gone."""
    for name in NAMES:  # the kernel gives up in half a minute, not in its usual 16
        inside(name, "sysctl", "-w", "net.ipv4.tcp_retries2=6")
    plug("down")
    signalled(processes(NAMES[1], workers=False), signal.SIGKILL)


CASES: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "a process is killed": lambda: signalled(processes(NAMES[1], True)[:1], signal.SIGKILL),
    "a machine is lost": lambda: signalled(processes(NAMES[1], False), signal.SIGKILL),
    "the first machine is lost": lambda: signalled(processes(NAMES[0], False), signal.SIGKILL),
    "a machine is sent SIGTERM": lambda: signalled(processes(NAMES[1], False), signal.SIGTERM),
    "a process stands for 20 s": slow,
    "a partition of 30 s": partition,
    "a machine loses its power": power_cut,
}


def losses() -> list[float]:
    """The training losses of the run, one a step."""
    there = Path("run/metrics.jsonl").exists()
    return [line["loss"] for line in lines(Path("run"), "train")] if there else []


def run(disturb: Callable[[], None]) -> tuple[str, float]:
    """Train on both machines and disturb it; how it ended, and how long after that."""
    plug("up")
    agents = [agent(name) for name in NAMES]
    end = time.monotonic() + LIMIT_SECONDS
    while len(losses()) < AT and time.monotonic() < end and agents[0].poll() is None:
        time.sleep(0.05)
    disturb()
    begun = time.monotonic()
    try:
        codes = [one.wait(max(1.0, begun + LIMIT_SECONDS - time.monotonic())) for one in agents]
        words = "finished" if codes == [0, 0] else f"codes {codes[0]} and {codes[1]}"
    except subprocess.TimeoutExpired:
        words = "hung"
    for name in NAMES:
        signalled(processes(name, False), signal.SIGKILL)
    for one in agents:
        one.wait()
    return words, time.monotonic() - begun


def alone(count: int) -> None:
    """Finish the run on one machine, in so many processes."""
    words = ("train", "farm.bertc", "--out", "run", "--resume", "--nproc", str(count))
    with open("alone.log", "ab") as log:
        subprocess.run([sys.executable, "-m", "bertc.cli", *words], stdout=log, stderr=log)


def compared(straight: list[float]) -> str:
    here = losses()
    if len(here) != STEPS:
        return f"WRONG: {len(here)} steps"
    most = max(abs(a - b) / b for a, b in zip(here, straight, strict=True))
    return "to the bit" if most == 0 else f"to {most:.0e}" if most < 1e-5 else f"WRONG by {most}"


def rows(only: str) -> Iterator[str]:
    """Run the cases, and yield a row of the table for each."""
    shutil.rmtree("run", ignore_errors=True)
    alone(4)
    straight = losses()
    for case, disturb in CASES.items():
        if only not in case:
            continue
        shutil.rmtree("run", ignore_errors=True)
        ended, seconds = run(disturb)
        saved = max((path.name for path in Path("run/checkpoints").glob("step-*")), default="none")
        with_four = "as it is"
        if ended != "finished":
            shutil.rmtree("copy", ignore_errors=True)
            shutil.copytree("run", "copy")
            run(lambda: None)
            with_four = compared(straight)
            shutil.rmtree("run")
            os.rename("copy", "run")
            alone(2)
        cells = (case, ended, f"{seconds:.0f} s", saved, with_four, compared(straight))
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    chosen = read_options(__doc__, only="", log="")
    log = chosen.log and Path(chosen.log).absolute()
    draw = random.Random(7)
    sentences = [" ".join(draw.choices(WORDS, k=8)).capitalize() + "." for _ in range(600)]
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ["BERTC_CACHE"] = f"{place}/cache"
        Path("farm.bertc").write_text(SPEC)
        Path("farm.txt").write_text("\n\n".join(sentences))
        try:
            with network():
                for row in rows(chosen.only):
                    print(row, flush=True)
                    if log:
                        with log.open("a") as file:
                            file.write(f"{row}\n")
        except (OSError, FileNotFoundError) as error:
            print(f"skipped: {error}")
        for path in Path().glob("*.log") if log else ():
            shutil.copy(path, log.with_name(f"{log.name}.{path.name}"))


if __name__ == "__main__":
    main()
