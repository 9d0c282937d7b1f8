"""Packages that some commands need, which an installation may lack."""

from importlib import import_module
from typing import Any

from bertc.base.diagnostics import MissingInputError


def optional_package(name: str, what: str, extra: str) -> Any:
    """Import a package of an extra of bertc's own, without which ``what`` cannot be.

    Raises:
        MissingInputError: if it is not installed, with the command that installs it.
    """
    try:
        return import_module(name)
    except ImportError:
        message = f"{name.partition('.')[0]} is not installed, which {what} need"
        raise MissingInputError(
            message, f"pip install -c constraints.txt -e '.[{extra}]'"
        ) from None
