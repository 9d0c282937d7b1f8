"""Sending figures while a run trains, from a process that can neither stop nor slow it.

    python -m bertc.trackers.beside RUN TRACKER...

The run starts it, and closes its standard input at the end. What it prints is told once.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from bertc.diagnostics import BertcError, escaped

if TYPE_CHECKING:
    from bertc.ir.program.run import Tracker

SEND_SECONDS = 5.0
"""Seconds between two looks at the metrics."""
RETRY_SECONDS = 60.0
"""Seconds after which a tracker that failed is tried again."""
END_SECONDS = 10.0
"""Most seconds that a run waits for its trackers at its end."""
GLANCE_SECONDS = 0.5
NICENESS = 10
"""Far behind the run where both want a core, but not so far that figures never leave."""
TOLD, NOT_ENDED = 1, 2
"""Exit codes: a tracker failed and the run was warned; some had not taken all in time."""


@contextmanager
def alongside(
    folder: Path,
    trackers: Sequence[Tracker],
    note: Callable[[str], None],
) -> Iterator[None]:
    """Send the figures of a run to its trackers while the block trains it, and a little longer.

    Nothing that happens to them ends the run: ``note`` is told, once a tracker.
    """
    process = _started(folder, trackers, note) if trackers else None
    if process is None:
        yield
        return
    telling = threading.Thread(target=_tell, args=(process, note), daemon=True)
    telling.start()
    try:
        yield
    finally:
        _end(process, folder, note)
        telling.join(GLANCE_SECONDS)


def _started(
    folder: Path, trackers: Sequence[Tracker], note: Callable[[str], None]
) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-m", __spec__.name, str(folder), *trackers]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the run's to answer
        )
    except OSError as error:
        note(f"warning: no figures go to {', '.join(trackers)}: {error.strerror}; {_way(folder)}")
        return None


def _tell(process: subprocess.Popen[bytes], note: Callable[[str], None]) -> None:
    with cast(IO[bytes], process.stdout) as lines:
        for line in lines:
            with suppress(Exception):
                note(f"warning: {escaped(line.decode(errors='replace').strip())}")


def _end(process: subprocess.Popen[bytes], folder: Path, note: Callable[[str], None]) -> None:
    with suppress(OSError):
        cast(IO[bytes], process.stdin).close()
    try:
        code = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, 9)
        process.wait()
        code = 9
    except BaseException:
        with suppress(OSError):
            os.killpg(process.pid, 9)
        raise
    if code not in (0, TOLD):
        note(f"warning: trackers were not sent all figures; {_way(folder)}")


def _way(folder: Path) -> str:
    return f"bertc runs sync {folder} sends what is missing"


def follow(
    folder: Path,
    trackers: Sequence[Tracker],
    ended: threading.Event,
    say: Callable[[str], None],
    wait_seconds: float = SEND_SECONDS,
) -> bool:
    """Send figures as they are written until ``ended`` is set; true if all was sent.

    Each tracker has a thread of its own, so that one that hangs holds up no other.
    """
    failed: set[Tracker] = set()
    threads = [
        threading.Thread(
            target=_follow, args=(folder, each, ended, say, wait_seconds, failed), daemon=True
        )
        for each in trackers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not failed


def _follow(
    folder: Path,
    tracker: Tracker,
    ended: threading.Event,
    say: Callable[[str], None],
    wait_seconds: float,
    failed: set[Tracker],
) -> None:
    # Here and not above: a run imports this module for starting it alone.
    from bertc.trackers.sync import Delivery

    delivery, told, last = None, False, False
    while not last:
        last = ended.is_set()
        try:
            delivery = delivery or Delivery(folder, tracker)
            delivery.send()
            if last:
                delivery.close()
            failed.discard(tracker)
        except Exception as error:
            failed.add(tracker)
            if not told:
                reason = error.message if isinstance(error, BertcError) else repr(error)
                say(f"{reason}; {_way(folder)}")
            told = True
            if delivery:
                with suppress(Exception):
                    delivery.close()
        if not last:
            ended.wait(RETRY_SECONDS if tracker in failed else wait_seconds)
    if delivery:
        delivery.release()


def follow_parent(words: Sequence[str]) -> int:
    """Follow the run of the command line until its process closes standard input, or is gone."""
    parent = os.getppid()
    with suppress(OSError):
        os.nice(NICENESS)
    # What trackers print is nobody's; what is to be told goes where they cannot write.
    telling = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "r+b") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    ended, outcome = threading.Event(), list[bool]()
    folder, trackers = Path(words[0]), cast("Sequence[Tracker]", words[1:])

    def say(text: str) -> None:
        with suppress(OSError):
            telling.write(f"{text}\n")

    work = threading.Thread(
        target=lambda: outcome.append(follow(folder, trackers, ended, say)), daemon=True
    )
    work.start()
    while work.is_alive() and os.getppid() == parent:
        if select.select([0], [], [], GLANCE_SECONDS)[0] and not os.read(0, 1):
            break
    ended.set()
    work.join(END_SECONDS)
    return NOT_ENDED if not outcome else 0 if outcome[0] else TOLD


if __name__ == "__main__":
    code = follow_parent(sys.argv[1:])
    # Threads of a tracker that hangs would keep the process.
    os._exit(code)
