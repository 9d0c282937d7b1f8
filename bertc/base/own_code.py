"""Permission to run code that a spec names, which a spec of others never has by itself."""

import os

from bertc.base.diagnostics import UsageError

VARIABLE, FLAG = "BERTC_OWN", "--own"
SOURCES: dict[str, str] = {}
"""Sources of classes that are in no file, by their codes."""


def allow() -> None:
    """Permit it in this process and those that it starts."""
    os.environ[VARIABLE] = "yes"


def require_permission(code: str) -> None:
    """Refuse to run code without ``--own`` or ``BERTC_OWN=yes``."""
    if os.environ.get(VARIABLE) != "yes":
        raise UsageError(
            f"{code} is code, which runs with your rights",
            help=f"read it, then add {FLAG} to the command, or set {VARIABLE}=yes",
        )
