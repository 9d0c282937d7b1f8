"""The pass that gives a task the published recipe for it: rates, batch, length, passes."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from bertc.diagnostics import Diagnostics
from bertc.ir.optimizer import Adam, ConstantRate, Polynomial
from bertc.ir.own_task import Choose, Read
from bertc.ir.program import Given, Origin, Program
from bertc.ir.task import Glue, Race, Squad, Task
from bertc.passes.fixes import fix

Family = Literal["bert", "roberta", "albert", "electra", "xlnet"]
FAMILIES: tuple[Family, ...] = get_args(Family)

ALBERT_GLUE = {  # albert/run_glue.sh: warm-up, rate, steps, batch
    "sst2": (1256, 1e-5, 20935, 32),
    "mnli": (1000, 3e-5, 10000, 128),
    "cola": (320, 1e-5, 5336, 16),
    "qnli": (1986, 1e-5, 33112, 32),
    "qqp": (1000, 5e-5, 14000, 128),
    "rte": (200, 3e-5, 800, 32),
    "stsb": (214, 2e-5, 3598, 16),
    "mrpc": (200, 2e-5, 800, 32),
}
LARGE_HIDDEN = 1024

Recipe = Mapping[str, Any]


def recipes(program: Program, diagnostics: Diagnostics) -> Program:
    """Fill in what a task's stage leaves open: ``optimizer batch seq epochs`` and so ``steps``.

    ``task=glue(mrpc, data="glue/MRPC")`` becomes ``... batch=32 seq=128 epochs=3 steps=344``. What
    is written where the task is named, or on the command line, holds. So does what a spec says
    outside its stages, if all of them are tasks: beside stages of text it is about those.
    """
    given = program.settings.get("recipe")
    family: Family = given.value if given else "bert"
    size = program.settings["hidden"].value if "hidden" in program.settings else 768
    positions = program.settings.get("positions")
    room = positions.value.room if positions else None
    stages = []
    objectives = [stage.settings.get("objective") for stage in program.stages]
    no_text = all(objective is not None and _tasks(objective) for objective in objectives)
    holding = {"set", "written"} if no_text else {"set"}
    for stage in program.stages:
        own = dict(stage.settings)
        forced = {n: g for n, g in program.settings.items() if g.origin.kind in holding}
        if "objective" in own and (tasks := _tasks(own["objective"])):
            own = _followed(own, forced, tasks, family, size, room, diagnostics)
        stages.append(replace(stage, settings=own))
    program = replace(program, stages=tuple(stages))
    objective = program.settings.get("objective")
    if objective is not None and (tasks := _tasks(objective)):
        settings = dict(program.settings)
        filled = _followed(settings, {}, tasks, family, size, room, diagnostics)
        program = program.with_settings(filled)
    return program


def _tasks(objective: Given) -> list[Task]:
    return [term.objective for term in objective.value if isinstance(term.objective, Task)]


def _followed(
    own: dict[str, Given],
    forced: Mapping[str, Given],
    tasks: list[Task],
    family: Family,
    hidden: int,
    room: int | None,
    diagnostics: Diagnostics,
) -> dict[str, Given]:
    """The settings of a stage and what its recipe says of the others."""
    source = f"{family}'s recipe for {tasks[0].title}"
    known = {**own, **forced}
    for name, value in recipe(family, hidden, tasks[0]).items():
        if name == "seq" and room:
            value = min(value, room)
        told = name == "steps" and "epochs" in known
        if name not in known and not told:
            known[name] = own[name] = Given(value, Origin("default", source=source))
    if "steps" not in known:
        examples = sum(task.examples for task in tasks)
        if not examples and not diagnostics.found:
            diagnostics.error(
                "E270",
                f"nobody has counted the examples of {tasks[0].title}, so {known['epochs'].value:g}"
                " passes over them are no number of steps",
                own["objective"].origin.span,
                help="steps=1000",
                fix=fix(own["objective"], own["objective"].origin.span.text + " steps=1000")
                if own["objective"].origin.span
                else None,
            )
        count = max(1, math.ceil(known["epochs"].value * examples / known["batch"].value))
        rule = f"{known['epochs'].value:g} passes over {examples:,} examples"
        own["steps"] = Given(count, Origin("derived", source=rule))
    return own


def recipe(family: Family, hidden: int, task: Task) -> Recipe:
    """What the authors of a system fine-tuned with, for a task or the most similar they had."""
    reads, chooses = isinstance(task, Squad | Read), isinstance(task, Race | Choose)
    match family:
        case "bert":
            found = _bert(task, reads, chooses)
        case "roberta":
            found = _roberta(task, reads, chooses)
        case "albert":
            found = _albert(task, reads, chooses)
        case "electra":
            found = _electra(task, reads, hidden)
        case "xlnet":
            found = _xlnet(task, reads, chooses)
    return found


def _bert(task: Task, reads: bool, chooses: bool) -> Recipe:
    """run_classifier.py and run_squad.py; optimization.py's Adam."""
    rule = Adam(
        lr=5e-5,
        warmup=0.1,
        schedule=Polynomial(decay_from="start"),
        bias_correction=False,
    )
    if reads:  # --max_seq_length; paper, 4.2 and 4.3
        second = isinstance(task, Squad) and task.version == 2
        passes, batch = (2.0, 48) if second else (3.0, 32)
        return {"optimizer": rule, "batch": batch, "seq": 384, "epochs": passes}
    return {"optimizer": rule, "batch": 32, "seq": 512 if chooses else 128, "epochs": 3.0}


def _roberta(task: Task, reads: bool, chooses: bool) -> Recipe:
    """fairseq examples/roberta README.glue.md, README.race.md."""
    rate = 2e-5 if isinstance(task, Glue) and task.task in ("rte", "stsb") else 1e-5
    few = isinstance(task, Glue) and task.task in ("cola", "mrpc", "rte", "stsb")
    rule = Adam(lr=rate, warmup=0.06, betas=(0.9, 0.98), decay=0.1, clip=0.0)
    if chooses:
        fixed = Adam(
            lr=1e-5, warmup=0, schedule=ConstantRate(), betas=(0.9, 0.98), decay=0.01, clip=0.0
        )
        return {"optimizer": fixed, "batch": 16, "seq": 512, "epochs": 5.0}
    if reads:  # paper, appendix table 10
        rule = Adam(lr=1.5e-5, warmup=0.06, betas=(0.9, 0.98), decay=0.01)
        return {"optimizer": rule, "batch": 48, "seq": 512, "epochs": 2.0}
    return {"optimizer": rule, "batch": 16 if few else 32, "seq": 512, "epochs": 10.0}


def _albert(task: Task, reads: bool, chooses: bool) -> Recipe:
    """run_glue.sh, run_squad_v2.py, run_race.py."""
    if reads:
        rule = Adam(lr=5e-5, warmup=0.1, bias_correction=False)
        return {"optimizer": rule, "batch": 48, "seq": 384, "epochs": 2.0}
    if chooses:
        rule = Adam(lr=1e-5, warmup=1000, bias_correction=False)
        return {"optimizer": rule, "batch": 32, "seq": 512, "steps": 12000}
    if isinstance(task, Glue) and task.task in ALBERT_GLUE:
        warmup, rate, steps, batch = ALBERT_GLUE[task.task]
        rule = Adam(lr=rate, warmup=warmup, bias_correction=False)
        return {"optimizer": rule, "batch": batch, "seq": 512, "steps": steps}
    rule = Adam(lr=2e-5, warmup=0.1, bias_correction=False)
    return {"optimizer": rule, "batch": 32, "seq": 512, "epochs": 3.0}


def _electra(task: Task, reads: bool, hidden: int) -> Recipe:
    """configure_finetuning.py."""
    large = hidden >= LARGE_HIDDEN
    rule = Adam(
        lr=5e-5 if large else 1e-4,
        warmup=0.1,
        schedule=Polynomial(decay_from="throughout"),
        bias_correction=False,
        layer_decay=0.9 if large else 0.8,
    )
    if reads:
        return {"optimizer": rule, "batch": 32, "seq": 512, "epochs": 2.0}
    long = isinstance(task, Glue) and task.task in ("rte", "stsb")
    return {"optimizer": rule, "batch": 32, "seq": 128, "epochs": 10.0 if long else 3.0}


def _xlnet(task: Task, reads: bool, chooses: bool) -> Recipe:
    """README.md of the release; run_squad.py, run_race.py."""
    if reads:
        rule = Adam(lr=3e-5, warmup=1000, bias_correction=False, layer_decay=0.75)
        return {"optimizer": rule, "batch": 48, "seq": 512, "steps": 8000}
    if chooses:
        rule = Adam(lr=2e-5, warmup=1000, bias_correction=False)
        return {"optimizer": rule, "batch": 32, "seq": 512, "steps": 12000}
    scored = isinstance(task, Glue) and task.task == "stsb"
    rule = Adam(lr=5e-5 if scored else 2e-5, warmup=0.1, bias_correction=False)
    return {"optimizer": rule, "batch": 32, "seq": 128, "epochs": 3.0}
