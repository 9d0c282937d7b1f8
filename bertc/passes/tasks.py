"""Checks of tasks and of settings about them."""

from collections.abc import Mapping
from dataclasses import replace

from bertc.diagnostics import Diagnostics, listed, several
from bertc.ir.learning.answer import Labels, Score
from bertc.ir.learning.augmentation import UNCHANGED, EditedCopies
from bertc.ir.learning.task import Task
from bertc.ir.network.positions import TablePositions
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Origin, Program
from bertc.passes.settings.features import features, one_head_a_task
from bertc.passes.settings.fixes import argument, fix, note, written
from bertc.passes.settings.stages import has_tasks

OF_TEXT = ("generator", "mixing", "format", "pack", "memory")
"""Settings that a stage of tasks does not read; ``data`` it may learn its vocabulary from."""


def tasks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report tasks that cannot be learned as written.

    ``layers=4 freeze=5`` is E274.
    """
    stages = program.stages
    unread = any(each.code < "E2" for each in diagnostics.found)
    for stage in stages:
        if has_tasks(stage.objective):
            _refuse_text_beside_tasks(stage, diagnostics)
            _without_text(stage, stage.own or program.origins, diagnostics)
            _copied(stage, diagnostics)
        _frozen(stage, diagnostics)
        if not (unread and _may_be_of_tasks(stage)):
            features(stage, diagnostics)
    one_head_a_task(stages, diagnostics)
    tuned = any(has_tasks(stage.objective) for stage in stages)
    for stage in stages:
        # Settings of the whole run may apply to its stages of text only.
        if has_tasks(stage.objective) or (unread and _may_be_of_tasks(stage)):
            continue
        if not tuned or "patience" in stage.own:
            _patient(stage, diagnostics)
        if not tuned or "epochs" in stage.own:
            _passing(stage, diagnostics)
        if stage.augment != UNCHANGED and (not tuned or "augment" in stage.own):
            _uncopied("the objective has none", stage, diagnostics)


def _may_be_of_tasks(stage: StageSettings) -> bool:
    """True of a stage of text whose spec has a mistake: what was not read may have been a task."""
    return not has_tasks(stage.objective) and not written(stage.origins["objective"])


def _copied(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Refuse copies of examples whose answers belong to words or passages."""
    tasks = (term.objective for term in stage.objective if isinstance(term.objective, Task))
    others = [task.title for task in tasks if not isinstance(task.answer, Labels | Score)]
    if others and stage.augment != UNCHANGED:
        _uncopied(f"those of {listed(others)} have others", stage, diagnostics)
    for number, source in enumerate(stage.augment):
        origin, copies = stage.origins["augment"], source.copies
        if isinstance(copies, EditedCopies) and copies.pos and not copies.tagger:
            diagnostics.error(
                "E277",
                f"pos = {copies.pos:g} needs a tagger, which says the parts of speech",
                origin.parts.get((number,), origin.span),
                **argument("augment", origin, "pos", "0", (number, "copies")),
            )


def _uncopied(why: str, stage: StageSettings, diagnostics: Diagnostics) -> None:
    origin = stage.origins["augment"]
    diagnostics.error(
        "E276",
        f"augment copies examples of texts with a label or a score, but {why}",
        origin.span,
        notes=note("the objective is set here", stage.span("objective")),
        help="augment=none",
        fix=fix(origin, "augment=none"),
    )


def _patient(stage: StageSettings, diagnostics: Diagnostics) -> None:
    problem = "patience needs the scores of a task, but the objective has none"
    _wanting(stage, "patience", ("E275", problem, "patience=0"), diagnostics)


def _passing(stage: StageSettings, diagnostics: Diagnostics) -> None:
    problem = "epochs needs the examples of a task, but the objective has none; text needs steps"
    _wanting(stage, "epochs", ("E272", problem, "epochs=0"), diagnostics)


def _wanting(
    stage: StageSettings, name: str, words: tuple[str, str, str], diagnostics: Diagnostics
) -> None:
    """Report a setting that needs a task where there is none: code, message and help."""
    origin, (code, message, instead) = stage.origins[name], words
    if getattr(stage, name):
        diagnostics.error(
            code,
            message,
            origin.span,
            notes=note("the objective is set here", stage.span("objective")),
            help=instead,
            fix=fix(origin, f"{name}=0"),
        )


def _refuse_text_beside_tasks(stage: StageSettings, diagnostics: Diagnostics) -> None:
    terms = stage.objective
    from_text = (t for t in terms if not isinstance(t.objective, Task) and not t.objective.taught)
    others = [term.name for term in from_text]
    if others:
        diagnostics.error(
            "E271",
            f"{listed(others)} learns from text, a task from examples: one stage cannot do both",
            stage.span("objective"),
            label="a stage reads either text or examples",
            help="make a stage for each",
        )


def _without_text(
    stage: StageSettings, written: Mapping[str, Origin], diagnostics: Diagnostics
) -> None:
    for name in OF_TEXT:
        origin = written.get(name)
        if origin is None or origin.kind not in ("written", "set"):
            continue
        diagnostics.error(
            "E273",
            f"{name} has no effect on a task, whose rows are its own examples",
            origin.span,
            notes=note("the task is named here", stage.span("objective")),
            help=f"leave {name} out",
        )


def without_unread(program: Complete) -> Program:
    """The program in printable form, without settings that none of its stages reads."""
    if not all(has_tasks(stage.objective) for stage in program.stages):
        return program.program
    settings = {n: each for n, each in program.program.settings.items() if n not in OF_TEXT}
    return replace(program.program, settings=settings)


def _frozen(stage: StageSettings, diagnostics: Diagnostics) -> None:
    layers, origin = stage.layers, stage.origins["freeze"]
    if isinstance(stage.freeze, int) and stage.freeze > layers:
        diagnostics.error(
            "E274",
            f"freeze = {stage.freeze}, but the network has {several(layers, 'layer')}",
            origin.span,
            notes=note(f"layers = {layers}", stage.span("layers")),
            label="with all of them frozen, only heads and pooler are trained",
            help=f"freeze={layers}",
            fix=fix(origin, f"freeze={layers}"),
        )
    if stage.freeze == "positions" and not isinstance(stage.positions, TablePositions):
        diagnostics.error(
            "E274",
            f"freeze = positions, but positions = {stage.positions.kind} has no table",
            origin.span,
            notes=note("positions are set here", stage.span("positions")),
            help="freeze=0",
            fix=fix(origin, "freeze=0"),
        )
