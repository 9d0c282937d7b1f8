"""A compiler for text encoders; the public names, each imported where it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertc.api import (
        build,
        estimate,
        findings,
        formatted,
        load,
        points,
        programs,
        resolve,
        show,
        train,
    )
    from bertc.base.diagnostics import (
        BertcError,
        CannotWriteError,
        DataError,
        Diagnostic,
        GivenUpError,
        MachineError,
        MissingInputError,
        ResumeRefusedError,
        SpecError,
        StoppedError,
        Table,
        UsageError,
        escaped,
    )
    from bertc.base.resources import shipped_specs
    from bertc.check.equal import most_steps
    from bertc.cost import Estimate, units
    from bertc.cost.flops import step_flops
    from bertc.cost.machines.devices import device_named
    from bertc.data.layouts.survey import Survey, survey
    from bertc.ir.learning.objective import titled
    from bertc.ir.program.model import model_weights
    from bertc.ir.program.resolved import Resolved
    from bertc.ir.program.written import Program
    from bertc.ir.terms.masking import shown_figures
    from bertc.lang.files import spec_text
    from bertc.lang.helps import remedies
    from bertc.lang.space import Interval, Space, space
    from bertc.lang.write.schema import AllowedValues, ValueKind, schema
    from bertc.lang.write.show import quoted
    from bertc.run.evaluation.evaluate import evaluate_heads, evaluate_run
    from bertc.run.evaluation.manner import Manner
    from bertc.run.models.loading import weights_digest
    from bertc.run.records.changes import changed, settings_texts
    from bertc.run.records.folder import RunFolder
    from bertc.run.records.results import Seen
    from bertc.run.stepper import Stepper
    from bertc.use.graph import Graph, graph_of
    from bertc.use.trained import Trained

__version__ = "0.1.0"

_HOMES = {
    "api": "build estimate findings formatted load points programs resolve show train",
    "base.diagnostics": "BertcError CannotWriteError DataError Diagnostic GivenUpError "
    "MachineError MissingInputError ResumeRefusedError SpecError StoppedError "
    "Table UsageError escaped",
    "base.resources": "shipped_specs",
    "check.equal": "most_steps",
    "cost": "Estimate units",
    "cost.flops": "step_flops",
    "cost.machines.devices": "device_named",
    "data.layouts.survey": "Survey survey",
    "ir.learning.objective": "titled",
    "ir.program.model": "model_weights",
    "ir.program.resolved": "Resolved",
    "ir.program.written": "Program",
    "ir.terms.masking": "shown_figures",
    "lang.files": "spec_text",
    "lang.helps": "remedies",
    "lang.space": "Interval Space space",
    "lang.write.schema": "AllowedValues ValueKind schema",
    "lang.write.show": "quoted",
    "run.evaluation.evaluate": "evaluate_heads evaluate_run",
    "run.evaluation.manner": "Manner",
    "run.models.loading": "weights_digest",
    "run.records.changes": "changed settings_texts",
    "run.records.folder": "RunFolder",
    "run.records.results": "Seen",
    "run.stepper": "Stepper",
    "use.graph": "Graph graph_of",
    "use.trained": "Trained",
}
PUBLIC = {name: f"bertc.{home}" for home, names in _HOMES.items() for name in names.split()}
"""The module of each public name."""
__all__ = [
    "AllowedValues", "BertcError", "CannotWriteError", "DataError", "Diagnostic",
    "Estimate", "GivenUpError", "Graph", "Interval", "MachineError", "Manner", "MissingInputError",
    "Program", "Resolved", "ResumeRefusedError", "RunFolder", "Seen", "Space",
    "SpecError", "Stepper", "StoppedError", "Survey", "Table", "Trained", "UsageError", "ValueKind",
    "build", "changed", "device_named", "escaped", "estimate", "evaluate_heads",
    "evaluate_run", "findings", "formatted", "graph_of", "load", "model_weights",
    "most_steps", "points", "programs", "quoted", "remedies", "resolve",
    "schema", "settings_texts", "shipped_specs", "show", "shown_figures", "space", "spec_text",
    "step_flops", "survey", "titled", "train", "units", "weights_digest",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names, for completion in shells and notebooks."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name; so commands start at once, and checks never load torch."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'bertc' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
