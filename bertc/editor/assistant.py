"""A process beside the server, so that answers never wait for what takes long."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from bertc.diagnostics import BertcError
from bertc.planning.worker import Worker

NICENESS = 10
"""Behind the server, which answers, where both want the same core."""

Result = TypeVar("Result")
Given = ParamSpec("Given")


class FailedError(Exception):
    """A function that raised in the other process; says what."""


class Assistant:
    """A process that calls functions one after another, kept for the next call.

    It begins with the first call, in the working folder of that moment. Where it was killed the
    next call begins another.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._waiting = ThreadPoolExecutor(1)

    @property
    def begun(self) -> bool:
        """True if there is a process."""
        return self._worker is not None

    async def call(
        self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        """The result of a function; a call that is cancelled before it begins is never made.

        Raises:
            FailedError: it raised an exception, or its process is gone.
        """
        ask = partial(self._call, partial(function, *args, **kwargs))
        result = await asyncio.get_running_loop().run_in_executor(self._waiting, ask)
        if isinstance(result, FailedError):
            raise result
        return cast(Result, result)

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            if self._worker is None:
                self._worker = Worker(_called, "works beside the language server")
                self._worker.run(partial(os.nice, NICENESS))
            return self._worker.run(function)
        except (BertcError, RuntimeError) as error:
            self.end()
            return FailedError(str(error))

    def end(self) -> None:
        """End the process; the next call begins another."""
        if self._worker:
            self._worker.end()
        self._worker = None


def _called(function: Callable[[], Any]) -> Any:
    """Call a function here, in the other process."""
    try:
        return function()
    except Exception as error:
        return FailedError(repr(error))
