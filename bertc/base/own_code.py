"""Permission to run code that a spec names, which a spec of others never has by itself."""

import os
import re
import traceback

from bertc.base.diagnostics import UsageError

VARIABLE, FLAG = "BERTC_OWN", "--own"
SOURCES: dict[str, str] = {}
"""Sources of classes that came as Python values, by their codes; these may run."""
CLASS_FILES = set[str]()
"""Files of classes that this process has loaded."""


class RefusedError(UsageError):
    """A class that cannot be used."""


def allow() -> None:
    """Permit it in this process and those that it starts."""
    os.environ[VARIABLE] = "yes"


def require_permission(code: str, source: str) -> None:
    """Refuse to run a source, "" if unread, without ``--own``, ``BERTC_OWN=yes`` or its class."""
    known = SOURCES.get(code)
    if os.environ.get(VARIABLE) != "yes" and (known is None or source not in ("", known)):
        raise UsageError(
            f"{code} is code, which runs with your rights",
            help=f"read it, then add {FLAG} to the command, or set {VARIABLE}=yes",
        )


def lines_of(error: BaseException) -> list[str]:
    """The lines of the user's files that raised an error, or that torch does not compile."""
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
    named = re.findall(r'File "(.+)", line (\d+).*\n +(.+)', str(error))
    lines = [f"{file}:{n}: {line}" for file, n, line in [*frames, *named] if file in CLASS_FILES]
    return lines + ["write that with tensors alone, or compile=off"] * bool(lines and named)
