"""A parallel map in worker processes that end with this one; results in the order of jobs."""

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
from typing import IO, Any, NamedTuple, TypeVar, cast

from bertc.base.cores import available_cores
from bertc.base.diagnostics import BertcError, MachineError

Advance = Callable[[int], None]
"""A receiver of amounts of work done."""
MAX_PROCESSES = 16
"""Most worker processes: more would wait for the reader, and each holds about 100 MB."""
JOBS_AHEAD = 2
"""Jobs queued for each worker, so that none waits for the reader."""
ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")
TagT = TypeVar("TagT")


class _Done(NamedTuple):
    amount: int


class Worker:
    """A process that does one job at a time: ``work`` of each argument that it is sent."""

    def __init__(self, work: Callable[..., Any], duty: str, report: Advance | None = None) -> None:
        self._duty, self._report = duty, report
        serial = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **serial, "PYTHONPATH": path},
        )  # fmt: skip
        self._jobs = cast(IO[bytes], self._process.stdin)
        self._results = cast(IO[bytes], self._process.stdout)
        self._send((work, report is not None))

    def run(self, argument: Any) -> Any:
        """The result of one job."""
        self._send(argument)
        try:
            while isinstance(result := pickle.load(self._results), _Done):
                if self._report:
                    self._report(result.amount)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(result, BertcError):
            raise result
        return result

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._results.close()
        with contextlib.suppress(BrokenPipeError):  # of a job that was never read
            self._jobs.close()

    def _send(self, what: Any) -> None:
        try:
            pickle.dump(what, self._jobs, pickle.HIGHEST_PROTOCOL)
            self._jobs.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> Exception:
        code = self._process.wait()
        if code < 0:
            return MachineError(
                f"a process that {self._duty} was ended by {signal.Signals(-code).name}",
                "the machine may be short of memory; what was finished before is kept",
            )
        return RuntimeError(f"a process that {self._duty} failed with exit code {code}")


def serve() -> None:
    """Serve jobs from standard input until it ends; the first message is the function."""
    # Both signals may reach all processes of a command; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing printed may mix with the results

    def send(what: object) -> None:
        pickle.dump(what, results, pickle.HIGHEST_PROTOCOL)
        results.flush()

    work, reporting = pickle.load(jobs)
    reports = (lambda amount: send(_Done(amount)),) if reporting else ()
    while True:
        try:
            argument = pickle.load(jobs)
        except EOFError:
            return
        try:
            try:
                result = work(argument, *reports)
            except BertcError as error:
                result = error
            send(result)
        except BrokenPipeError:  # the parent was killed
            os._exit(1)


def processes(size_bytes: int, worth_bytes: int, cores: int = 0) -> int:
    """The number of processes, each with at least ``worth_bytes`` of work; 1 means this process."""
    return max(1, min(cores or available_cores(), MAX_PROCESSES, size_bytes // worth_bytes))


def spread(
    work: Callable[..., ResultT],
    jobs: Iterable[tuple[TagT, ArgumentT]],
    number: int,
    report: Advance | None = None,
) -> Generator[tuple[TagT, ResultT], None, None]:
    """Map ``work`` over jobs (tag, argument) read lazily, in their order; 1 is this process.

    With ``report``, ``work`` has it as its second argument and calls it with what is done.
    """
    if number == 1:
        reports = (report,) if report else ()
        yield from ((tag, work(argument, *reports)) for tag, argument in jobs)
        return
    workers = [Worker(work, "prepares data", report) for _ in range(number)]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def run(argument: ArgumentT) -> ResultT:
        worker = idle.get()
        try:
            return cast(ResultT, worker.run(argument))
        finally:
            idle.put(worker)  # a dead one too, or the thread waiting for it would hang

    pending: deque[tuple[TagT, Future[ResultT]]] = deque()
    with ThreadPoolExecutor(number) as pool:
        try:
            for tag, argument in jobs:
                pending.append((tag, pool.submit(run, argument)))
                if len(pending) > JOBS_AHEAD * number:
                    oldest, result = pending.popleft()
                    yield oldest, result.result()
            for oldest, result in pending:
                yield oldest, result.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()
