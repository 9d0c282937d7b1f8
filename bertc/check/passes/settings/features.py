"""Checks of what heads of tasks read of a network, and of a network that is frozen as a whole."""

from collections.abc import Iterator, Sequence

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings.fixes import argument, fix, fix_settings, note
from bertc.check.passes.settings.rules import Checker
from bertc.ir.changing.pruning import NOTHING
from bertc.ir.learning.answer import Span, Vector
from bertc.ir.learning.task import Task
from bertc.ir.network.head import POOLINGS
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.features import LAST


def features(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report layers that no head can read, and a wholly frozen network that cannot be used so.

    ``layers=2 features=concat(last=4)`` is E279, ``objective=mlm freeze=all`` E278.
    """
    tasks, check = stage.tasks, Checker(stage, diagnostics)
    if tasks and stage.features != LAST and stage.features.least > stage.layers:
        several = stage.features.least > 2 or stage.features.joins != "one"
        deeper = argument("features", stage.origins["features"], "last", str(stage.layers))
        check.report(
            "E279",
            f"features reads {stage.features.least} layers, and there are {stage.layers}",
            "features",
            also=("layers", f"layers = {stage.layers}"),
            instead="features=last",
            way=deeper if several else None,
        )
    for setting, why, instead in _obstacles(stage, tasks):
        value, origin = getattr(stage, setting), stage.origins.get(instead.partition("=")[0])
        edit = fix(origin, instead) if instead else None
        if instead and not edit:
            edit = fix_settings(stage, stage.origins[setting], instead)
        check.report(
            "E278",
            f"{setting} = {value} {why}" if isinstance(value, str) else f"{setting} {why}",
            (setting, "objective"),
            also=("objective", "the objective is set here"),
            way={"help": instead or "leave head out of the task", "fix": edit},
        )
        return


def one_head_a_task(stages: Sequence[StageSettings], diagnostics: Diagnostics) -> None:
    """Report a task of several stages whose head reads other layers in one of them, as E278."""
    before: dict[str, tuple[StageSettings, object]] = {}
    for stage in stages:
        for task in stage.tasks:
            read = stage.features, task.recurrent
            earlier, there = before.setdefault(task.title, (stage, read))
            if there != read:
                diagnostics.error(
                    "E278",
                    f"the head of {task.title} reads other states here than in stage "
                    f"{earlier.name}, and a task has one head",
                    stage.span("features") or stage.span("objective"),
                    notes=note("the other stage", earlier.span("features")),
                    help="the same features and head in all stages of a task",
                )
                return


def _obstacles(stage: StageSettings, tasks: Sequence[Task]) -> Iterator[tuple[str, str, str]]:
    """Settings that cannot be, each with the reason and what to write instead."""
    chosen, frozen = stage.features != LAST, stage.freeze == "all"
    recurrent = any(task.recurrent for task in tasks)
    if chosen and (why := _unread(stage, tasks)):
        yield "features", why, "features=last"
    if frozen and (why := _unfrozen(stage, tasks)):
        yield "freeze", why, f"freeze={stage.layers}"
    pools = stage.pooler and POOLINGS[stage.pooler].mean != "none"
    if (chosen or recurrent) and pools and any(task.pooled for task in tasks):
        why = "reads states of tokens, and the pooler makes one state of all of them"
        yield "features" if chosen else "objective", why, "pooler=false"
    taught = next((t.objective.title for t in stage.objective if t.objective.teaching), "")
    if recurrent and (taught or not stage.body.attends):
        why = "has a task with head=bilstm, which "
        why += f"{taught} compares with no teacher's" if taught else "is of layers that attend"
        yield "objective", why, ""
    if stage.prune != NOTHING and (chosen or frozen):
        reason = "nothing of the network changes" if frozen else "layers are named from the top"
        setting = "freeze" if frozen else "features"
        yield setting, f"goes with no pruning: {reason}", "prune=none"


def _unread(stage: StageSettings, tasks: Sequence[Task]) -> str:
    if not tasks:
        return "is what the head of a task reads, and the objective has none"
    if not stage.body.attends:
        return f"chooses layers of a network that attends, and body = {stage.body.kind} does not"
    if any(isinstance(task.answer, Vector) for task in tasks):
        return "is what a head scores, and vectors are pooled from last states (bertc embed)"
    if any(isinstance(a := task.answer, Span) and a.head.kind == "conditioned" for task in tasks):
        return "is read by linear heads, and by head=plain of spans"
    if any(term.objective.teaching for term in stage.objective):
        return "differs from what a teacher's head reads, which kd compares"
    return ""


def _unfrozen(stage: StageSettings, tasks: Sequence[Task]) -> str:
    if not tasks:
        return "leaves a head alone to be trained, and the objective has no task"
    if any(isinstance(task.answer, Vector) for task in tasks):
        return "leaves nothing to be learned, since vectors are of the network itself"
    if any(term.objective.teaching for term in stage.objective):
        return "keeps states of examples, and kd compares those with what teachers say"
    return ""
