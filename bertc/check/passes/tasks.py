"""Checks of tasks and of settings about them."""

from dataclasses import replace

from bertc.base.diagnostics import Diagnostics, listed, several
from bertc.check.passes.settings.features import features, one_head_a_task
from bertc.check.passes.settings.fixes import written
from bertc.check.passes.settings.rules import Checker, Rule
from bertc.check.passes.settings.stages import has_tasks
from bertc.ir.learning.answer import Labels, Score
from bertc.ir.learning.augmentation import UNCHANGED
from bertc.ir.learning.task import Task
from bertc.ir.network.positions import TablePositions
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.written import Program

OF_TEXT = ("generator", "mixing", "format", "pack", "memory")
"""Settings that a stage of tasks does not read; ``data`` it may learn its vocabulary from."""


def tasks(program: Complete, diagnostics: Diagnostics) -> None:
    """Report tasks that cannot be learned as written.

    ``layers=4 freeze=5`` is E274.
    """
    stages = program.stages
    unread = any(mistake.code < "E2" for mistake in diagnostics.found)
    for stage in stages:
        check = Checker(stage, diagnostics)
        if has_tasks(stage.objective):
            check.rules(_OF_TASKS)
            origins = stage.own or program.origins
            for name in OF_TEXT:
                if span := written(origins.get(name)):
                    check.report(
                        "E273",
                        f"{name} has no effect on a task, whose rows are its own examples",
                        span,
                        also=("objective", "the task is named here"),
                        help=f"leave {name} out",
                    )
        check.rules(_OF_FROZEN)
        if not (unread and _may_be_of_tasks(stage)):
            features(stage, diagnostics)
    one_head_a_task(stages, diagnostics)
    tuned = any(has_tasks(stage.objective) for stage in stages)
    for stage in stages:
        # Settings of the whole run may apply to its stages of text only.
        if has_tasks(stage.objective) or (unread and _may_be_of_tasks(stage)):
            continue
        for rule in _OF_TEXTS:
            if not tuned or rule.at in stage.own:
                Checker(stage, diagnostics).rules((rule,))


def _may_be_of_tasks(stage: StageSettings) -> bool:
    """True of a stage of text whose spec has a mistake: what was not read may have been a task."""
    return not has_tasks(stage.objective) and not written(stage.origins["objective"])


def _from_text(stage: StageSettings) -> list[str]:
    terms = [term for term in stage.objective if not isinstance(term.objective, Task)]
    return [term.name for term in terms if not term.objective.teaching]


def _uncopied(stage: StageSettings) -> list[str]:
    """The tasks whose answers belong to words or passages, which no copy of a text has."""
    return [task.title for task in stage.tasks if not isinstance(task.answer, Labels | Score)]


_OF_TASKS: tuple[Rule[StageSettings], ...] = (
    Rule("E271", "objective", _from_text,
         lambda s: f"{listed(_from_text(s))} learns from text, a task from examples: one stage "
         "cannot do both",
         label="a stage reads either text or examples", help="make a stage for each"),
    Rule("E276", "augment", lambda s: s.augment != UNCHANGED and _uncopied(s),
         lambda s: "augment copies examples of texts with a label or a score, but those of "
         f"{listed(_uncopied(s))} have others",
         also=("objective", "the objective is set here"), instead="augment=none"),
)  # fmt: skip
_OF_FROZEN: tuple[Rule[StageSettings], ...] = (
    Rule("E274", "freeze", lambda s: isinstance(s.freeze, int) and s.freeze > s.layers,
         lambda s: f"freeze = {s.freeze}, but the network has {several(s.layers, 'layer')}",
         also=lambda s: ("layers", f"layers = {s.layers}"),
         label="with all of them frozen, only heads and pooler are trained",
         instead=lambda s: f"freeze={s.layers}"),
    Rule("E274", "freeze",
         lambda s: s.freeze == "positions" and not isinstance(s.positions, TablePositions),
         lambda s: f"freeze = positions, but positions = {s.positions.kind} has no table",
         also=("positions", "positions are set here"), instead="freeze=0"),
)  # fmt: skip
_OF_TEXTS: tuple[Rule[StageSettings], ...] = (
    Rule("E275", "patience", lambda s: s.patience,
         "patience needs the scores of a task, but the objective has none",
         also=("objective", "the objective is set here"), instead="patience=0"),
    Rule("E272", "epochs", lambda s: s.epochs,
         "epochs needs the examples of a task, but the objective has none; text needs steps",
         also=("objective", "the objective is set here"), instead="epochs=0"),
    Rule("E276", "augment", lambda s: s.augment != UNCHANGED,
         "augment copies examples of texts with a label or a score, but the objective has none",
         also=("objective", "the objective is set here"), instead="augment=none"),
)  # fmt: skip
"""Settings of tasks alone, in stages of text."""


def without_unread(program: Complete) -> Program:
    """The program in printable form, without settings that none of its stages reads."""
    if not all(has_tasks(stage.objective) for stage in program.stages):
        return program.program
    settings = {n: setting for n, setting in program.program.settings.items() if n not in OF_TEXT}
    return replace(program.program, settings=settings)
