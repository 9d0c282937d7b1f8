"""The pass that checks what is said about tasks."""

from collections.abc import Mapping

from bertc.diagnostics import Diagnostics, listed
from bertc.ir.learning.task import Task
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Origin
from bertc.passes.fixes import fix, note, written
from bertc.passes.stages import has_tasks

OF_TEXT = ("generator", "data", "mixing", "format", "pack", "memory")
"""Settings of how text becomes rows, which a task has no text for."""


def tasks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report tasks that cannot be learned as they are written.

    ``layers=4 freeze=5`` is E274.
    """
    stages = program.stages
    for stage in stages:
        if has_tasks(stage.objective):
            _alone(stage, diagnostics)
            _without_text(stage, stage.own or program.origins, diagnostics)
        _frozen(stage, diagnostics)
    tuned = any(has_tasks(stage.objective) for stage in stages)
    unread = any(each.code < "E2" for each in diagnostics.found)
    for stage in stages:
        # Written for the whole of a run, it is meant for its tasks.
        if has_tasks(stage.objective):
            continue
        # What could not be read may have been the task.
        if unread and not written(stage.origins["objective"]):
            continue
        if not tuned or "patience" in stage.own:
            _patient(stage, diagnostics)
        if not tuned or "epochs" in stage.own:
            _passing(stage, diagnostics)


def _patient(stage: StageSettings, diagnostics: Diagnostics) -> None:
    told = "patience waits for better scores of a task, and there is none"
    _wanting(stage, "patience", ("E275", told, "patience=0"), diagnostics)


def _passing(stage: StageSettings, diagnostics: Diagnostics) -> None:
    told = "epochs counts passes over the examples of a task, and there is none: steps counts"
    _wanting(stage, "epochs", ("E272", told, "epochs=0"), diagnostics)


def _wanting(
    stage: StageSettings, name: str, words: tuple[str, str, str], diagnostics: Diagnostics
) -> None:
    """Report a setting that says nothing where no task is learned: code, message and help."""
    origin, (code, message, instead) = stage.origins[name], words
    if getattr(stage, name):
        diagnostics.error(
            code,
            message,
            origin.span,
            notes=note("what is learned is said here", stage.span("objective")),
            help=instead,
            fix=fix(origin, f"{name}=0"),
        )


def _alone(stage: StageSettings, diagnostics: Diagnostics) -> None:
    terms = stage.objective
    others = [term.name for term in terms if not isinstance(term.objective, Task)]
    if others:
        diagnostics.error(
            "E271",
            f"{listed(others)} learns from text, and a task from examples",
            stage.span("objective"),
            label="one stage reads one of the two",
            help="a stage for each",
        )


def _without_text(
    stage: StageSettings, written: Mapping[str, Origin], diagnostics: Diagnostics
) -> None:
    for name in OF_TEXT:
        origin = written.get(name)
        # A vocabulary may still have to be learned from the text that data names.
        if origin is None or origin.kind not in ("written", "set") or name == "data":
            continue
        diagnostics.error(
            "E273",
            f"{name} says how text is read, and a task has examples of its own",
            origin.span,
            notes=note("the task is named here", stage.span("objective")),
            help=f"leave {name} out",
        )


def _frozen(stage: StageSettings, diagnostics: Diagnostics) -> None:
    layers, origin = stage.layers, stage.origins["freeze"]
    if stage.freeze > layers:
        diagnostics.error(
            "E274",
            f"freeze = {stage.freeze}, and there are {layers} layers",
            origin.span,
            notes=note(f"layers = {layers}", stage.span("layers")),
            label="with all of them frozen, heads and pooler alone are trained",
            help=f"freeze={layers}",
            fix=fix(origin, f"freeze={layers}"),
        )
