"""A compiler for text encoders; the public names, each imported where it is first used.

The kinds of the language are names too: ``bertc.mlm(p=0.3)``, ``bertc.stable_adamw(1e-3)``.
"""

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


def homes(names: dict[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module."""
    return {name: f"bertc.{home}" for home, those in names.items() for name in those.split()}


PUBLIC = homes(
    {
        "api": "build estimate load resolve show train",
        "api.opened": "Opened open",
        "api.spec": "Findings Spec",
        "base.diagnostics": "BertcError CannotWriteError DataError GivenUpError "
        "MachineError MissingInputError ResumeRefusedError SpecError StoppedError UsageError",
        "cost": "Estimate",
        "ir.program.resolved": "Resolved",
        "use.trained": "Trained",
    }
)
"""The module of each public name."""
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
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    if not name.startswith("_"):
        from bertc.api.words import kind, kinds

        if name in kinds():
            return kind(name)
    raise AttributeError(f"module 'bertc' has no attribute {name!r}")
