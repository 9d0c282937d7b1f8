"""Conversion of errors to messages and exit codes, never a traceback.

The codes are the project's table: 2 usage, 65 bad spec or data, 66 input missing, 70 internal
error, 74 cannot write, 75 stopped and resumable, 76 resume refused, 77 unsafe, 78 the machine
cannot, 130 and 143 signals.
"""

import errno
import os
import re
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from bertc.base import own_code
from bertc.base.diagnostics import BertcError, DataError, SpecError, StoppedError, for_terminal
from bertc.base.storage.durable import TOO_LITTLE_ELSE, TOO_LITTLE_ROOM
from bertc.base.storage.plain_file import reason

FAULTS = {
    "greater": "{} is too small; {ge} is the least", "less": "{} is too large; {le} is the most",
    "int": "{} is no whole number", "float": "{} is no number",
}  # fmt: skip
"""Faults of the values of options, by the first word of pydantic's kind of error."""
MISSING, INTERNAL, CANNOT_WRITE, NO_MEMORY, INTERRUPTED = 66, 70, 74, 78, 130


def exit_code(error: BaseException, color: bool) -> int:
    """Print an error on stderr and return the exit code of the process."""
    match error:
        case SystemExit(__context__=BrokenPipeError() as left):  # as click ends a command
            return exit_code(left, color)
        case SystemExit():
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        case SpecError():
            from bertc.base.diagnostics.render import render

            print(render(error.diagnostics, color), file=sys.stderr)
            return error.exit_code
        case BertcError():
            # A stop that was requested is no error, though not the end either.
            _say("error: " * (not isinstance(error, StoppedError)) + error.message, error.help)
            return error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            help = "what was saved is kept: go on with --resume, or run the same command again"
            _say("error: interrupted", help)
            return INTERRUPTED
        case BrokenPipeError():
            # The reader of our output left: nothing may be flushed into the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError() if error.errno in (*TOO_LITTLE_ROOM, errno.EROFS):
            _say(f"error: cannot write {error.filename or 'the output'}: {reason(error)}")
            return CANNOT_WRITE
        case OSError() if error.errno in TOO_LITTLE_ELSE:
            _say(f"error: this machine has too little of what is needed: {reason(error)}")
            return NO_MEMORY
        case OSError() if error.filename:
            # The last net: who opens a file says better what it was for.
            _say(f"error: cannot use {error.filename}: {reason(error)}", "check the path")
            return MISSING
        # Errors of torch, which need not be loaded here; torch.OutOfMemoryError is a RuntimeError.
        case MemoryError() | RuntimeError() if (
            isinstance(error, MemoryError)
            or type(error).__name__ == "OutOfMemoryError"
            or "DefaultCPUAllocator" in str(error)
        ):
            _say("error: out of memory", "a shorter text, or --set microbatch=1")
            return NO_MEMORY
        case _ if lines := own_code.lines_of(error):
            words = str(error).partition("\n  Hint:")[0]  # of torch's compiler
            _say(f"error: {type(error).__name__}: {words}", "\n".join(lines))
            return DataError.exit_code
        case _:
            code = _report_misuse(error)
            return _internal(error) if code is None else code


def _report_misuse(error: Any) -> int | None:
    """Print a usage error of typer's own click and return its exit code; None of another error."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if not callable(show) or not isinstance(code, int):
        return None
    message = _explain_value(error.__cause__) or getattr(error, "message", "")
    error.message = for_terminal(str(message))
    show()
    if extra := re.search(r"extra argument\S* \((\S+)", error.message):
        _say(f"help: {_instead_of(extra[1].rstrip(')'))}")
    return code


def _instead_of(extra: str) -> str:
    """The remedy for an argument too many."""
    if "=" in extra:
        return 'a spec of several settings stands in quotes, as does --set "name = value"'
    if "--resume" in sys.argv:
        return f"a run is resumed by its folder alone: bertc train --resume {extra}"
    return f"leave {extra} out; a name with spaces stands in quotes"


def _explain_value(cause: BaseException | None) -> str:
    """The fault of the value of an option, which typer leaves to pydantic to say."""
    errors = getattr(cause, "errors", None)
    if not callable(errors):
        return ""
    first = errors()[0]
    value, limits = str(first["input"])[:60], first.get("ctx", {})
    return FAULTS.get(first["type"].partition("_")[0], "").format(value, **limits)


def _internal(error: BaseException) -> int:
    lines = "".join(traceback.format_exception(error))
    text = f"command: {sys.argv[1:]}\npython: {sys.version}\n\n{lines}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="bertc-error-", suffix=".txt", errors="replace", delete=False
        ) as file:
            file.write(text)
        report = f"with the file {Path(file.name)}"
    except OSError:
        report = f"with this:\n{text}"
    help = f"this is a mistake in bertc; please report it {report}"
    _say(f"error: internal error: {type(error).__name__}", help)
    return INTERNAL


def _say(text: str, help: str = "") -> None:
    text += f"\nhelp: {help}" if help else ""
    with suppress(OSError):  # the terminal may be gone
        print(for_terminal(text), file=sys.stderr, flush=True)
