"""The Hugging Face family and class for exporting a model, and for a task's head; no torch."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bertc.hub.families import family_for
from bertc.hub.families.family import Family, HfClass, transformer
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.keys import keys, part_of, parts_of
from bertc.ir.learning.answer import Labels, Score, Span, Tags, Vector
from bertc.ir.learning.custom_task import AnyTask, Embed
from bertc.ir.network.head import PoolerKind
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import AnyStage


def target_of(
    program: Resolved, names: Iterable[str], pad: int, prefer: str | None = None
) -> tuple[Family, HfClass] | Obstacle:
    """Find the family and class for one network, or the obstacle to an export.

    ``names`` are the names of its weights; whole heads may be absent.
    """
    learned = {term.objective.head_name for term in program.terms()} | {"pooler"}
    names = [*names]
    if program.encoder.head.decoder:  # which no class of transformers has
        terms = (term.objective for term in program.terms())
        learned -= {one.head_name for one in terms if one.states.decoded}
    parts = parts_of(names) & learned
    stages = list[AnyStage]()
    for stage in program.stages:  # without terms whose heads are absent
        held = tuple(t for t in stage.objective if t.objective.head_name in parts)
        stages.append(stage.model_copy(update={"objective": held}))
    family = family_for(program.model_copy(update={"stages": tuple(stages)}), pad, prefer)
    if isinstance(family, Obstacle):
        return family
    task = held_task(program, parts)
    if task is not None:
        holder = task_class(family, task, "pooler" in parts and program.encoder.pooler)
        return holder if isinstance(holder, Obstacle) else (family, holder)
    # A head that the layout has in part only is none of its own.
    without = {
        part_of(name) for name in set(names) - set(keys(family, transformer(program), names, {}))
    }
    chosen = family.class_for(parts - without) or family.class_for(frozenset({"pooler"}))
    assert chosen is not None, f"{family.title} has a class of the encoder alone"
    return family, chosen


def held_task(program: Resolved, parts: frozenset[str]) -> AnyTask | None:
    """The task whose head is exported: the first of the last stage, if its head is there."""
    tasks = [task for task in program.stages[-1].tasks if not isinstance(task.answer, Vector)]
    return next((task for task in tasks if task.title in parts), None)


def learned_vectors(program: Resolved) -> Embed | None:
    """The last task that learned vectors; None if none did."""
    tasks = [task for stage in program.stages for task in stage.tasks]
    return next((task for task in reversed(tasks) if isinstance(task, Embed)), None)


def task_class(family: Family, task: AnyTask, pooler: PoolerKind) -> HfClass | Obstacle:
    """The class for a task on an encoder with such a pooler or without, or the obstacle."""
    answer = task.answer
    if isinstance(answer, Span) and answer.head.kind == "conditioned":
        return Obstacle(
            "head=conditioned",
            "the classes for spans score start and end independently",
            f"task={task.kind}(..., head=plain)",
        )
    if beyond := beyond_last(task):
        return beyond
    heads = family.tasks
    holder = next(
        (candidate for candidate in heads.classes if answer.kind in candidate.kinds), None
    )
    if holder is None:
        return Obstacle(f"task={task.kind}", heads.otherwise)
    if holder.pooler == "read" and not pooler:
        usual = f"pooler={family.usual_pooler}"
        return Obstacle("pooler=false", f"{holder.name} reads the pooler", usual)
    if holder.pooler == "refused" and pooler:
        return Obstacle("pooler=true", f"{holder.name} has no pooler", "pooler=false")
    said = family.poolers[pooler] if pooler else {}
    if said and not holder.always.items() <= said.items():
        kind = next(k for k, s in family.poolers.items() if holder.always.items() <= s.items())
        instead = f"pooler={str(kind).lower()}"
        return Obstacle(f"pooler={str(pooler).lower()}", f"{holder.name} has {kind} there", instead)
    chosen = holder.holding(task.title, bool(pooler))
    rate = {holder.dropout or heads.dropout: task.dropout}
    return replace(chosen, settings={**_of_task(task), **rate, **said, **chosen.settings})


def beyond_last(task: AnyTask) -> Obstacle | None:
    """The obstacle that a head is more than a linear layer on last states; None if it is not."""
    if task.recurrent:
        why = "heads elsewhere are linear layers on last states"
        return Obstacle("head=bilstm", why, f"task={task.kind}(..., head=linear)")
    if not task.reads_last_alone:
        why = "heads elsewhere read the last layer alone"
        return Obstacle(f"features={task.features.kind}", why, "features=last")
    return None


def _of_task(task: AnyTask) -> Mapping[str, Any]:
    """Settings of ``config.json`` for a task: title and labels."""
    title = {"finetuning_task": task.title}
    match task.answer:
        case Labels(names=names):
            return {**title, **_labels(names), "problem_type": "single_label_classification"}
        case Tags(names=names):
            return {**title, **_labels(names)}
        case Score():
            return {**title, **_labels(("LABEL_0",)), "problem_type": "regression"}
        case _:
            return title


def _labels(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
        "num_labels": len(names),
    }
