"""Commands run in forked children: modules are loaded once, and a crash or a hang ends one child.
The parent starts no thread and never computes with torch, so that what is forked is whole.
"""

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

MEMORY_BYTES = 6 << 30
WAITING_SECONDS = 45.0
"""Wall time after which a child that waits is ended; other work may slow this machine."""
LOADED = """
datasets matplotlib.backends.backend_agg matplotlib.figure pyarrow.parquet torch torch._dynamo
torch.distributed.fsdp torch.distributed.tensor bertc.api bertc.base.failures
bertc.check.facts.networks bertc.cli.app bertc.lab.bench.run bertc.run.evaluation.evaluate
bertc.run.models.runs bertc.run.train.opening bertc.run.records.results
"""

Task = TypeVar("Task")


@dataclass(frozen=True)
class Ended(Generic[Task]):
    """How a child ended: its exit code, or minus the signal; and what it printed."""

    task: Task
    code: int
    cpu_seconds: float
    waited: bool
    words: str


def load_everything() -> None:
    """Import what commands import, so that children need not."""
    for name in LOADED.split():
        import_module(name)
    import_module("torch").set_num_threads(1)
    gc.freeze()  # what is shared with children is left untouched


def command(words: list[str], place: Path) -> int:
    """Run ``bertc`` with these arguments in a folder, in this process; its exit code."""
    from bertc.cli import main

    os.chdir(place)
    sys.argv = ["bertc", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def each(
    tasks: Iterator[Task],
    run: Callable[[Task], int],
    jobs: int,
    cpu_limit: float,
    waiting: float = WAITING_SECONDS,
) -> Iterator[Ended[Task]]:
    """What became of each task, run in a child of its own, ``jobs`` at a time."""
    running: dict[int, tuple[Task, float, Path]] = {}
    scratch = Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp")
    numbered = enumerate(tasks)
    following = next(numbered, None)
    while following or running:
        while following and len(running) < jobs:
            number, task = following
            words = scratch / f"damage-{os.getpid()}-{number}"
            running[_start(task, run, words, cpu_limit)] = (task, time.monotonic(), words)
            following = next(numbered, None)
        for pid in list(running):
            task, started, words = running[pid]
            late = time.monotonic() - started > waiting
            if late:
                os.killpg(pid, signal.SIGKILL)
            ended, status, usage = os.wait4(pid, 0 if late else os.WNOHANG)
            if ended:
                del running[pid]
                said = words.read_text(errors="replace")
                words.unlink(missing_ok=True)
                code = os.waitstatus_to_exitcode(status)
                yield Ended(task, code, usage.ru_utime + usage.ru_stime, late, said)
        time.sleep(0.005)


def _start(task: Task, run: Callable[[Task], int], words: Path, cpu_limit: float) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        printed = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for target, source in ((0, nothing), (1, printed), (2, printed)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        limit = int(cpu_limit * 2) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        code = run(task)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)
