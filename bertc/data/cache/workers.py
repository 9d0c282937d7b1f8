"""One function over many arguments in other processes, its answers in order.

The processes run this package and nothing else: unlike those of ``multiprocessing`` they never run
the program that asked for them again, so that program needs no guard around its own work. They end
when their input ends, however the asking process did.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, TypeVar, cast

from bertc.diagnostics import MachineError
from bertc.planning.cores import available_cores

MOST = 16
"""More processes wait for the one that reads, and each holds some 100 MB."""
AHEAD = 2  # arguments waiting for each process, so that none waits for the one that reads

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
Note = TypeVar("Note")


def processes(size_bytes: int, worth_bytes: int) -> int:
    """How many to use where each should have ``worth_bytes`` of work; 1 is this process."""
    return max(1, min(available_cores(), MOST, size_bytes // worth_bytes))


def spread(
    work: Callable[[Argument], Answer],
    jobs: Iterable[tuple[Note, Argument]],
    number: int,
) -> Generator[tuple[Note, Answer], None, None]:
    """Each note with the answer to its argument, in the order of the jobs.

    ``work`` is sent once, arguments and answers travel; notes stay. Jobs are read as they are
    needed. With ``number`` 1 all is done here.

    Raises:
        MachineError: a process was ended from outside, as systems short of memory do.
    """
    if number == 1:
        yield from ((note, work(argument)) for note, argument in jobs)
        return
    workers = [_Worker(work) for _ in range(number)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def ask(argument: Argument) -> Answer:
        worker = idle.get()
        try:
            return cast(Answer, worker.ask(argument))
        finally:
            idle.put(worker)  # also one that has ended: who waits for one must not wait for ever

    waiting: deque[tuple[Note, Future[Answer]]] = deque()
    with ThreadPoolExecutor(number) as pool:
        try:
            for note, argument in jobs:
                waiting.append((note, pool.submit(ask, argument)))
                if len(waiting) > AHEAD * number:
                    done, answer = waiting.popleft()
                    yield done, answer.result()
            for done, answer in waiting:
                yield done, answer.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


class _Worker:
    """A process that answers one question at a time."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        serial = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **serial, "PYTHONPATH": path},
        )
        self._questions = cast(IO[bytes], self._process.stdin)
        self._answers = cast(IO[bytes], self._process.stdout)
        self._send(work)

    def ask(self, argument: Any) -> Any:
        self._send(argument)
        try:
            return pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()
        with contextlib.suppress(BrokenPipeError):  # of a question that was never read
            self._questions.close()

    def _send(self, what: Any) -> None:
        try:
            pickle.dump(what, self._questions, pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> Exception:
        code = self._process.wait()
        if code < 0:
            return MachineError(
                f"a process that prepares data was ended by {signal.Signals(-code).name}",
                "the machine may be short of memory; what was prepared before is kept",
            )
        return RuntimeError(f"a process that prepares data failed with exit code {code}")


def serve() -> None:
    """Answer questions from the input until it ends; the first is the function to use."""
    # Both may be sent to all processes of a command; the asking one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing that is printed may stand among the answers
    work = pickle.load(questions)
    while True:
        try:
            argument = pickle.load(questions)
        except EOFError:
            return
        try:
            pickle.dump(work(argument), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the process that asked was killed
            os._exit(1)
