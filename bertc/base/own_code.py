"""Code that a spec names, and permission to run it, which a spec of others never has by itself."""

import linecache
import os
import re
import resource
import sys
import traceback
import types
from functools import lru_cache
from typing import Any
from zlib import crc32

from bertc.base.diagnostics import UnsafeError, UsageError

VARIABLE, FLAG = "BERTC_OWN", "--own"
SOURCES: dict[str, str] = {}
"""Sources of classes that came as Python values, by their codes; these may run."""
_FILES = set[str]()
"""Files of classes that this process has loaded."""


class RefusedError(UsageError):
    """A class that cannot be used."""


def allow(seconds: int = 0) -> None:
    """Permit it in this process and those that it starts, for so much processor time if any."""
    os.environ[VARIABLE] = "yes"
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def require_permission(code: str, source: str) -> None:
    """Refuse to run a source, "" if unread, without ``--own``, ``BERTC_OWN=yes`` or its class."""
    known = SOURCES.get(code)
    if os.environ.get(VARIABLE) != "yes" and (known is None or source not in ("", known)):
        raise UnsafeError(
            f"{code} is code, which runs with your rights",
            help=f"read it, then add {FLAG} to the command, or set {VARIABLE}=yes",
        )


def lines_of(error: BaseException) -> list[str]:
    """The lines of the user's files that raised an error, or that torch does not compile."""
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
    named = re.findall(r'File "(.+)", line (\d+).*\n +(.+)', str(error))
    lines = [f"{file}:{n}: {line}" for file, n, line in [*frames, *named] if file in _FILES]
    if lines and "dtype" in str(error):
        return [*lines, "make tensors in the type of x (dtype=x.dtype), or set precision=fp32"]
    return lines + ["write that with tensors alone, or compile=off"] * bool(lines and named)


@lru_cache(32)
def load_class(source: str, code: str) -> Any:
    """The class that ``code`` names, of a module made of ``source``."""
    file, _, name = code.rpartition(":")
    require_permission(code, source)
    _FILES.add(file)
    module = types.ModuleType(f"own_{crc32(source.encode()):x}")
    # For the lines in tracebacks, for classes that look for their module, and for the compiler.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    sys.modules[module.__name__] = module
    exec(compile(source, file, "exec"), vars(module))
    if not (named := getattr(module, name, None)):
        names = re.findall(r"^class (\w+)", source, re.MULTILINE)
        raise NameError(f"{file} has no class {name}, but {', '.join(names)}")
    return named


def make(part: Any) -> Any:
    """A new object of the class that an ``own`` node names."""
    return load_class(part.source, part.code)(**dict(part.arguments))
