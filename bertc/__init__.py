"""A compiler for text encoders; the public names, each imported where it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertc.api import build, estimate, load, parse, points, resolve, show, train
    from bertc.base.diagnostics import (
        BertcError,
        CannotWriteError,
        DataError,
        Diagnostic,
        Diagnostics,
        GivenUpError,
        InNotebooks,
        MachineError,
        MissingInputError,
        ResumeRefusedError,
        Source,
        Span,
        SpecError,
        StoppedError,
        Table,
        UsageError,
    )
    from bertc.cost import Estimate
    from bertc.cost.units import bytes_text, change_text, count_text, duration_text, flops_text
    from bertc.ir.program.resolved import Resolved
    from bertc.model import Model
    from bertc.run.evaluation.evaluate import evaluate_run
    from bertc.run.evaluation.held_out import Evaluation
    from bertc.run.evaluation.manner import Manner
    from bertc.run.evaluation.without import LeftOut
    from bertc.run.records.folder import RunFolder
    from bertc.run.records.groups import Group, Summary, grouped
    from bertc.run.records.results import Run, find_runs
    from bertc.run.train.report import Report
    from bertc.use.attention import AttentionMaps
    from bertc.use.trained import Trained

__version__ = "0.1.0"

_HOMES = {
    "api": "build estimate load parse points resolve show train",
    "base.diagnostics": "BertcError CannotWriteError DataError Diagnostic Diagnostics GivenUpError "
    "InNotebooks MachineError MissingInputError ResumeRefusedError Source Span SpecError "
    "StoppedError Table UsageError",
    "cost": "Estimate",
    "cost.units": "bytes_text change_text count_text duration_text flops_text",
    "ir.program.resolved": "Resolved",
    "model": "Model",
    "run.evaluation.evaluate": "evaluate_run",
    "run.evaluation.held_out": "Evaluation",
    "run.evaluation.manner": "Manner",
    "run.evaluation.without": "LeftOut",
    "run.records.folder": "RunFolder",
    "run.records.groups": "Group Summary grouped",
    "run.records.results": "Run find_runs",
    "run.train.report": "Report",
    "use.attention": "AttentionMaps",
    "use.trained": "Trained",
}
PUBLIC = {name: f"bertc.{home}" for home, names in _HOMES.items() for name in names.split()}
"""The module of each public name."""
__all__ = [
    "BertcError", "CannotWriteError", "DataError", "Diagnostic", "Diagnostics", "GivenUpError",
    "InNotebooks", "MachineError", "MissingInputError", "ResumeRefusedError", "Source", "Span",
    "SpecError", "StoppedError", "Table", "UsageError",
    "build", "estimate", "load", "parse", "points", "resolve", "show", "train",
    "Estimate", "bytes_text", "change_text", "count_text", "duration_text", "flops_text",
    "Evaluation", "Group", "LeftOut", "Manner", "Model", "Report", "Resolved", "Run", "RunFolder",
    "Summary", "evaluate_run", "find_runs", "grouped",
    "AttentionMaps", "Trained",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name; so commands start at once, and checks never load torch."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'bertc' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
