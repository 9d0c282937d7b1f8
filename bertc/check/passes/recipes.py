"""Published recipes for tasks: optimiser, batch, length, epochs."""

import math
from collections.abc import Mapping

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.published.systems import Published
from bertc.check.passes.settings import asks_about_pairs
from bertc.ir.learning import UNCHANGED, Task, Term
from bertc.ir.network.head import POOLINGS
from bertc.ir.program.settings import STAGE_SETTINGS
from bertc.ir.written import Given, Origin, Program, map_terms


def fill_arguments(program: Program) -> Program:
    """Fill in unset arguments of tasks with training files from their recipe.

    ``recipe=electra task=glue(mrpc, "glue/MRPC")`` becomes ``... both_orders=true``.
    """
    published = _system_of(program)

    def argued(term: Term) -> Term:
        task = term.objective
        if not isinstance(task, Task) or not getattr(task, "train", True):
            return term
        arguments, named = published.arguments(task).items(), task.model_fields_set
        open_ = {name: value for name, value in arguments if name not in named}
        filled = {"objective": task.model_copy(update=open_)}
        return term.model_copy(update=filled) if open_ else term

    return program.map_blocks(lambda settings: map_terms(settings, argued))


def recipes(program: Program, diagnostics: Diagnostics) -> Program:
    """Fill in unset settings of a task's stage: ``optimizer batch seq epochs``, and so ``steps``.

    ``task=glue(rte, "glue/RTE", examples=2490)`` becomes ``batch=32 seq=128 epochs=3 steps=234``.
    Settings in the stage, of ``--set`` and, if all stages are tasks, outside stages win.
    """
    program = fill_arguments(program)
    published = _system_of(program)
    positions = program.settings.get("positions")
    room = positions.value.room if positions else None
    stages = []
    objectives = [stage.settings.get("objective") for stage in program.stages]
    no_text = all(objective is not None and _tasks(objective) for objective in objectives)

    def reaches_tasks(name: str, setting: Given) -> bool:
        written = setting.origin.kind == "written" and (no_text or name == "seq")
        return written or setting.origin.kind == "set" or name == "augment"

    forced = {n: g for n, g in program.settings.items() if reaches_tasks(n, g)}
    for stage in program.stages:
        objective, in_stage = stage.settings.get("objective"), stage.settings
        if objective is not None and (tasks := _tasks(objective)):
            in_stage = _follow(dict(in_stage), forced, tasks, published, room, diagnostics)
        stages.append(stage.having(in_stage))
    program = program.having(program.settings, tuple(stages))
    objective = program.settings.get("objective")
    if objective is not None and (tasks := _tasks(objective)):
        filled = _follow(dict(program.settings), {}, tasks, published, room, diagnostics)
        program = program.with_settings(filled)
    return _with_their_pooler(program, published)


def _with_their_pooler(program: Program, published: Published) -> Program:
    """Take the pooler that the recipe of every task has, or has not, unless a term needs BERT's."""
    blocks = [stage.settings for stage in program.stages] or [{}]
    of_run = program.settings.get("objective")
    objectives = [block.get("objective", of_run) for block in blocks]
    tasks = [task for objective in objectives if objective for task in _tasks(objective)]
    pairs = any(asks_about_pairs(objective.value) for objective in objectives if objective)
    poolers = {published.recipe(task).get("pooler", True) for task in tasks}
    of_rows = all(kind and not POOLINGS[kind].transforms for kind in poolers)
    unread = of_rows and not any(task.pooled for task in tasks)
    if "pooler" in program.settings or pairs or unread or len(poolers - {True}) != 1:
        return program
    origin = Origin("default", source=f"{published.whose} recipe for {tasks[0].title}")
    return program.with_settings({"pooler": Given(poolers.pop(), origin)})


def _system_of(program: Program) -> Published:
    settings = {name: setting.value for name, setting in program.settings.items()}
    body = settings["body"].kind if "body" in settings else "transformer"
    hidden, layers = settings.get("hidden", 768), settings.get("layers", 12)
    return Published(settings.get("recipe", "bert"), hidden, layers, body)


def _tasks(objective: Given) -> list[Task]:
    return [term.objective for term in objective.value if isinstance(term.objective, Task)]


def _follow(
    settings: dict[str, Given],
    forced: Mapping[str, Given],
    tasks: list[Task],
    published: Published,
    room: int | None,
    diagnostics: Diagnostics,
) -> dict[str, Given]:
    source = f"{published.whose} recipe for {tasks[0].title}"
    known = {**forced, **settings}
    recipe = published.recipe(tasks[0])
    if room:
        recipe["seq"] = min(recipe["seq"], room)
    for name, value in recipe.items():
        if name not in STAGE_SETTINGS:
            continue
        if name == "optimizer" and name in known:
            settings[name] = known[name]  # of this stage, whose schedule begins with it
        passes = name == "steps" and "epochs" in known
        if name not in known and not passes:
            known[name] = settings[name] = Given(value, Origin("default", source=source))
    if "steps" not in known:
        augment = known["augment"].value if "augment" in known else UNCHANGED
        # With all copies, of which those that repeat others are left out when they are made.
        examples = sum(t.examples + sum(a.counts(t.examples)[1] for a in augment) for t in tasks)
        if not examples and not diagnostics.found:
            origin = settings["objective"].origin
            message = (
                f"epochs = {known['epochs'].value:g} needs the number of training examples of "
                f"{tasks[0].title}, which is not known"
            )
            diagnostics.error("E270", message, origin.span, help="steps=1000")
        count = max(1, math.ceil(known["epochs"].value * examples / known["batch"].value))
        rule = f"{known['epochs'].value:g} passes over {examples:,} examples"
        settings["steps"] = Given(count, Origin("derived", source=rule))
    return settings
