"""The names that the lab is written with, as scripts may be; those of ``bertc`` are stabler."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bertc import homes

if TYPE_CHECKING:
    from bertc.api import findings, formatted, points, programs
    from bertc.base.diagnostics import Diagnostic, Table, escaped, several
    from bertc.base.own_code import require_permission
    from bertc.base.storage.paths import shipped_specs
    from bertc.check.compiling import most_steps
    from bertc.cost import units
    from bertc.cost.figures import Expected
    from bertc.cost.flops import step_flops
    from bertc.cost.machines.devices import device_named
    from bertc.ir.learning.objective import loss_title
    from bertc.ir.program.resolved import model_weights
    from bertc.ir.terms.masking import shown_figures
    from bertc.ir.written import Program
    from bertc.lang.files import spec_text
    from bertc.lang.helps import remedies
    from bertc.lang.space import Interval, Space, space
    from bertc.lang.write.schema import AllowedValues, ValueKind, schema
    from bertc.lang.write.show import quote
    from bertc.run.evaluation.evaluate import evaluate_run
    from bertc.run.evaluation.manner import Manner
    from bertc.run.models.loading import weights_digest
    from bertc.run.records.calibration import divide_by_temperatures, fit_of_head
    from bertc.run.records.changes import changed, settings_texts
    from bertc.run.records.folder import RunFolder
    from bertc.run.records.results import Seen, mean_score
    from bertc.run.stepper import Stepper
    from bertc.tasks.layouts.survey import Survey, survey
    from bertc.use.graph import Graph, graph_of

PUBLIC = homes(
    {
        "api": "findings formatted points programs",
        "base.diagnostics": "Diagnostic Table escaped several",
        "base.own_code": "require_permission",
        "base.storage.paths": "shipped_specs",
        "check.compiling": "most_steps",
        "cost": "units",
        "cost.figures": "Expected",
        "cost.flops": "step_flops",
        "cost.machines.devices": "device_named",
        "tasks.layouts.survey": "Survey survey",
        "ir.learning.objective": "loss_title",
        "ir.program.resolved": "model_weights",
        "ir.written": "Program",
        "ir.terms.masking": "shown_figures",
        "lang.files": "spec_text",
        "lang.helps": "remedies",
        "lang.space": "Interval Space space",
        "lang.write.schema": "AllowedValues ValueKind schema",
        "lang.write.show": "quote",
        "run.evaluation.evaluate": "evaluate_run",
        "run.evaluation.manner": "Manner",
        "run.models.loading": "weights_digest",
        "run.records.calibration": "divide_by_temperatures fit_of_head",
        "run.records.changes": "changed settings_texts",
        "run.records.folder": "RunFolder",
        "run.records.results": "Seen mean_score",
        "run.stepper": "Stepper",
        "use.graph": "Graph graph_of",
    }
)
"""The module of each of these names."""
__all__ = [
    "AllowedValues", "Diagnostic", "Expected", "Graph", "Interval", "Manner", "Program",
    "RunFolder", "Seen", "Space", "Stepper", "Survey", "Table", "ValueKind", "changed",
    "device_named", "divide_by_temperatures", "escaped", "evaluate_run", "findings", "fit_of_head",
    "formatted", "graph_of", "loss_title", "mean_score", "model_weights", "most_steps", "points",
    "programs", "quote", "remedies", "require_permission", "schema", "settings_texts",
    "several", "shipped_specs", "shown_figures", "space", "spec_text", "step_flops", "survey",
    "units", "weights_digest",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name where it is first used."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'bertc.lab_api' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
