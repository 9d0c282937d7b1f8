"""A parallel map in worker processes, with results in the order of the jobs."""

import queue
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from bertc.base.cores import available_cores
from bertc.base.worker import Worker

MAX_PROCESSES = 16
"""Most worker processes: more would wait for the reader, and each holds about 100 MB."""
JOBS_AHEAD = 2
"""Jobs queued for each worker, so that none waits for the reader."""

ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")
TagT = TypeVar("TagT")


def processes(size_bytes: int, worth_bytes: int) -> int:
    """The number of processes, each with at least ``worth_bytes`` of work; 1 means this process."""
    return max(1, min(available_cores(), MAX_PROCESSES, size_bytes // worth_bytes))


def spread(
    work: Callable[[ArgumentT], ResultT],
    jobs: Iterable[tuple[TagT, ArgumentT]],
    number: int,
) -> Generator[tuple[TagT, ResultT], None, None]:
    """Map ``work`` over jobs (tag, argument) read lazily, in their order; 1 is this process."""
    if number == 1:
        yield from ((tag, work(argument)) for tag, argument in jobs)
        return
    workers = [Worker(work, "prepares data") for _ in range(number)]
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
