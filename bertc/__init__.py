"""A compiler for text encoders."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertc.api import build, estimate, load, parse, resolve, show, train

__all__ = ["build", "estimate", "load", "parse", "resolve", "show", "train"]
__version__ = "0.1.0"


class _Package(ModuleType):
    """The package, with functions of ``bertc.api`` imported at first use.

    So the command line starts at once, and answers a Ctrl-C while the rest is loading. Rooms with
    the name of a function (``bertc.run.train``) are shadowed by it: the attribute is the function.
    """

    def __getattribute__(self, name: str) -> Any:
        if name in __all__:
            return getattr(import_module("bertc.api"), name)
        return super().__getattribute__(name)


sys.modules[__name__].__class__ = _Package
