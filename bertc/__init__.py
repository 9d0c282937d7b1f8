"""A compiler for text encoders; the public names, each imported where it is first used.

The kinds of the language are names too: ``bertc.mlm(p=0.3)``, ``bertc.stable_adamw(1e-3)``.
"""

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertc.api import build, estimate, load, resolve, show, train
    from bertc.api.opened import Opened, open
    from bertc.api.spec import Findings, Spec
    from bertc.api.typed import *  # noqa: F403
    from bertc.base.diagnostics import (
        BertcError,
        CannotWriteError,
        DataError,
        GivenUpError,
        MachineError,
        MissingInputError,
        ResumeRefusedError,
        SpecError,
        StoppedError,
        UsageError,
    )
    from bertc.cost import Estimate
    from bertc.ir.program.resolved import Resolved
    from bertc.use.trained import Trained

__version__ = "0.1.0"


@cache
def homes(module: str) -> dict[str, str]:
    """The home of each public name, read off the imports that a module has for type checkers."""
    import ast

    loader: Any = sys.modules[module].__loader__
    body = ast.parse(loader.get_source(module)).body
    checked = (node for node in body if isinstance(node, ast.If))
    imports = (node for block in checked for node in block.body if isinstance(node, ast.ImportFrom))
    return {n.name: str(node.module) for node in imports for n in node.names if n.name != "*"}


__all__ = [
    "BertcError", "CannotWriteError", "DataError", "Estimate", "Findings", "GivenUpError",
    "MachineError", "MissingInputError", "Opened", "Resolved", "ResumeRefusedError", "Spec",
    "SpecError", "StoppedError", "Trained", "UsageError", "build", "estimate", "load", "open",
    "resolve", "show", "train",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names and the kinds, for completion in shells and notebooks."""
    from bertc.api.words import kinds

    return sorted([*__all__, *kinds(), "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name; so commands start at once, and checks never load torch."""
    if home := homes(__name__).get(name):
        return getattr(import_module(home), name)
    if not name.startswith("_"):
        from bertc.api.words import kind, kinds

        if name in kinds():
            return kind(name)
    raise AttributeError(f"module 'bertc' has no attribute {name!r}")
