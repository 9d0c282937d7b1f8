"""Checks of what heads of tasks read of a network, and of a network that is frozen as a whole."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings.fixes import Way, argument, fix, fix_settings, note
from bertc.ir.changing.pruning import NOTHING
from bertc.ir.learning.answer import Span, Vector
from bertc.ir.learning.task import Task
from bertc.ir.network.head import POOLINGS
from bertc.ir.program.complete import StageSettings
from bertc.ir.terms.features import LAST


class _Obstacle(NamedTuple):
    """Something that does not go with a setting: why, and another setting without that."""

    setting: str
    why: str
    way: Way


def features(stage: StageSettings, diagnostics: Diagnostics) -> None:
    """Report layers that no head can read, and a wholly frozen network that cannot be used so.

    ``layers=2 features=concat(last=4)`` is E279, ``objective=mlm freeze=all`` E278.
    """
    tasks = stage.tasks
    deepest = stage.features.least
    if tasks and stage.features != LAST and deepest > stage.layers:
        _too_deep(stage, diagnostics)
    for obstacle in _obstacles(stage, tasks):
        diagnostics.error(
            "E278",
            f"{obstacle.setting} {obstacle.why}",
            stage.span(obstacle.setting.split(" ")[0]) or stage.span("objective"),
            notes=note("the objective is set here", stage.span("objective")),
            **obstacle.way,
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


def _too_deep(stage: StageSettings, diagnostics: Diagnostics) -> None:
    origin = stage.origins["features"]
    several = stage.features.least > 2 or stage.features.joins != "one"
    way: Way = {"help": "features=last", "fix": fix(origin, "features=last")}
    if several:
        way = argument("features", origin, "last", str(stage.layers))
    diagnostics.error(
        "E279",
        f"features reads {stage.features.least} layers, and there are {stage.layers}",
        origin.span,
        notes=note(f"layers = {stage.layers}", stage.span("layers")),
        **way,
    )


def _obstacles(stage: StageSettings, tasks: Sequence[Task]) -> Iterator[_Obstacle]:
    chosen, frozen = stage.features != LAST, stage.freeze == "all"
    recurrent = any(task.recurrent for task in tasks)
    if chosen and (why := _unread(stage, tasks)):
        yield _instead(stage, "features", why, "features=last")
    if frozen and (why := _unfrozen(stage, tasks)):
        yield _instead(stage, "freeze", why, f"freeze={stage.layers}")
    if (chosen or recurrent) and _pools(stage) and any(task.pooled for task in tasks):
        setting = "features" if chosen else "objective"
        why = "reads states of tokens, and the pooler makes one state of all of them"
        yield _instead(stage, setting, why, "pooler=false")
    taught = next((t.objective.title for t in stage.objective if t.objective.teaching), "")
    if recurrent and (taught or not stage.body.attends):
        why = "has a task with head=bilstm, which "
        why += f"{taught} compares with no teacher's" if taught else "is of layers that attend"
        yield _Obstacle("objective", why, {"help": "leave head out of the task", "fix": None})
    if stage.prune != NOTHING and (chosen or frozen):
        setting = "freeze" if frozen else "features"
        why = "goes with no pruning: " + (
            "nothing of the network changes" if frozen else "layers are named from the top"
        )
        yield _instead(stage, setting, why, "prune=none")


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


def _pools(stage: StageSettings) -> bool:
    return bool(stage.pooler) and POOLINGS[stage.pooler].mean != "none"


def _instead(stage: StageSettings, setting: str, why: str, instead: str) -> _Obstacle:
    value = getattr(stage, setting)
    title = f"{setting} = {value}" if isinstance(value, str) else setting
    origin = stage.origins[instead.partition("=")[0]]
    beside = stage.origins[setting]
    return _Obstacle(
        title,
        why,
        {"help": instead, "fix": fix(origin, instead) or fix_settings(stage, beside, instead)},
    )
