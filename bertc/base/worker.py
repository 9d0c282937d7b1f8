"""A process that works for this one, and ends with it.

It runs this package only: unlike those of ``multiprocessing`` it never imports the main program
again, so that needs no ``if __name__`` guard. It ends when its input ends, however the process that
started it died.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, cast

from bertc.base.diagnostics import BertcError, MachineError


class Worker:
    """A process that does one job at a time: ``work`` of each argument that it is sent.

    ``duty`` says in an error what it does: "prepares data".
    """

    def __init__(self, work: Callable[[Any], Any], duty: str) -> None:
        self._duty = duty
        serial = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **serial, "PYTHONPATH": path},
        )
        self._jobs = cast(IO[bytes], self._process.stdin)
        self._results = cast(IO[bytes], self._process.stdout)
        self._send(work)

    def run(self, argument: Any) -> Any:
        """The result of one job."""
        self._send(argument)
        try:
            result = pickle.load(self._results)
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
    work = pickle.load(jobs)
    while True:
        try:
            argument = pickle.load(jobs)
        except EOFError:
            return
        try:
            try:
                result = work(argument)
            except BertcError as error:
                result = error
            pickle.dump(result, results, pickle.HIGHEST_PROTOCOL)
            results.flush()
        except BrokenPipeError:  # the parent was killed
            os._exit(1)
