"""The pass over teachers: terms are given what follows from them, and misfits are refused."""

from collections.abc import Sequence

from bertc.diagnostics import Diagnostics
from bertc.ir.base import call_text
from bertc.ir.learning.answer import Choice, Plain, Score, Span, Vector, alike, told_names
from bertc.ir.learning.objective import Distillation, Objective, Term
from bertc.ir.learning.task import Task
from bertc.ir.network.body import Body
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.lessons import needs_same_tokens
from bertc.ir.program.teacher import FromFolder, NoTeacher, Shape, Teacher
from bertc.ir.terms.kd import KdLogits, OfLayers
from bertc.ir.vocabulary import table_rows
from bertc.passes.settings.fixes import fix, note
from bertc.passes.teaching.taught_layers import layers_fit, of_layers

WHOLE_EXAMPLES = (
    "whole examples of a task: logits of labels, scores or choices, states of first tokens"
)
"""Comparisons that networks with other tokenizers allow."""


def taught_terms(stage: StageSettings) -> tuple[Term, ...]:
    """The objective of a stage in which each term says what follows from teacher and network.

    A term over the scores of tasks is one for each of them.
    """
    return tuple(
        term.model_copy(update={"objective": filled})
        for term in stage.objective
        for filled in _filled(term.objective, stage)
    )


def _filled(term: Objective, stage: StageSettings) -> tuple[Objective, ...]:
    """The term with what follows from other terms, or from the depths and widths of networks."""
    if isinstance(term, KdLogits):
        tasks = _tasks(stage)
        if tasks:
            return tuple(_of_task(term, task, len(tasks) > 1) for task in tasks)
        others = (each.objective for each in stage.objective if not each.objective.taught)
        head = next((each.head_name for each in others if each.scores_tokens), term.head)
        return (term.model_copy(update={"head": head}),)
    first = next((teacher.shape for teacher in stage.teacher if teacher.shape), None)
    if first is None or not isinstance(term, OfLayers):
        return (term,)
    return (of_layers(term, stage, first.body),)


def _of_task(term: KdLogits, task: Task, several: bool) -> KdLogits:
    choices = task.answer.most if isinstance(task.answer, Choice) else 0
    return term.model_copy(
        update={
            "head": task.head_name,
            "labels": task.answer.width,
            "choices": choices,
            "pools": task.pooled,
            "dropout": task.dropout,
            "spans": isinstance(task.answer, Span),
            "of": task.title if several else "",
        }
    )


def _tasks(stage: StageSettings) -> list[Task]:
    return [t.objective for t in stage.objective if isinstance(t.objective, Task)]


def teachers(program: Complete, diagnostics: Diagnostics) -> None:
    """Report teachers whom nothing asks, terms without a teacher, and what does not fit.

    ``objective=kd(logits)`` is E280 without a teacher.
    """
    _keeps_something(program, diagnostics)
    is_read = any(_taught(stage) for stage in program.stages)
    if not is_read and _known(program.teacher):
        diagnostics.remark(
            "R110",
            "no term learns from the teacher, so it is not read",
            program.span("teacher"),
            notes=note("the objective is set here", program.span("objective")),
            help="remove the teacher, or learn from it, as in objective=kd(logits, T=2)+mlm",
            fix=fix(program.origins["teacher"], "teacher=none"),
        )
    for at, stage in enumerate(program.stages):
        terms = _taught(stage)
        if terms:
            _stage_fits(stage, terms, diagnostics)
        _weigh_something(stage, program.stages[at:], diagnostics)


def _keeps_something(program: Complete, diagnostics: Diagnostics) -> None:
    """Remark on ``teacher_cache=fp32`` where no stage learns a task from a teacher."""
    asking = [each for each in program.stages if each.teacher_cache in ("fp32", "fp16")]
    if asking and not any(_taught(each) and _tasks(each) for each in asking):
        first = asking[0]
        diagnostics.remark(
            "R114",
            f"teacher_cache = {first.teacher_cache} keeps nothing: no stage learns a task from a "
            "teacher",
            first.span("teacher_cache"),
            label="text is masked anew in each pass, and examples of a task are what they are",
            help="teacher_cache=auto",
            fix=fix(first.origins["teacher_cache"], "teacher_cache=auto"),
        )


def _taught(stage: StageSettings) -> list[Distillation]:
    objectives = (term.objective for term in stage.objective)
    return [objective for objective in objectives if isinstance(objective, Distillation)]


def _known(teachers: tuple[Teacher, ...]) -> list[Teacher]:
    return [each for each in teachers if not isinstance(each.source, NoTeacher)]


def _stage_fits(stage: StageSettings, terms: list[Distillation], diagnostics: Diagnostics) -> None:
    span, known = stage.span("teacher"), _known(stage.teacher)
    if not known:
        diagnostics.error(
            "E280",
            f"{terms[0].title} learns from a teacher, and there is none",
            stage.span("objective"),
            help='name a run or a model folder, as in teacher="runs/bert"',
        )
    for teacher in known:
        if teacher.shape is not None:
            _teacher_fits(stage, teacher, teacher.shape, terms, diagnostics)
        elif isinstance(teacher.source, FromFolder) and not _unreadable(diagnostics):
            diagnostics.error(
                "E282",
                f"there is no model in {teacher.source.path} to learn from",
                span,
                help='name a run or a model folder, as in teacher="runs/bert"',
            )


def _unreadable(diagnostics: Diagnostics) -> bool:
    """True if part of the spec cannot be read: then no folder was looked into."""
    return any(not each.code.startswith("E2") for each in diagnostics.found)


def _teacher_fits(
    stage: StageSettings,
    teacher: Teacher,
    shape: Shape,
    terms: list[Distillation],
    diagnostics: Diagnostics,
) -> None:
    """Check that a teacher can read what a stage reads, and has what terms need."""
    if shape.body.vocab_size != table_rows(stage.vocab):
        _reads_apart(stage, shape.body, diagnostics)
    else:
        _has_room(stage, shape.body.room, diagnostics)
    for term in terms:
        _masks(stage, term, diagnostics)
        if isinstance(term, KdLogits):
            _has_head(stage, shape, term, diagnostics)
        else:
            layers_fit(stage, len(_known(stage.teacher)) > 1, shape, term, diagnostics)


def _reads_apart(stage: StageSettings, teacher: Body, diagnostics: Diagnostics) -> None:
    """Check that a teacher with other tokens says something of whole examples, which is kept."""
    span, rows = stage.span("teacher"), table_rows(stage.vocab)
    problem = (
        f"the teacher reads with {teacher.vocab_size:,} tokens, and this network with {rows:,}"
    )
    if reason := needs_same_tokens(term.objective for term in stage.objective):
        diagnostics.error(
            "E283",
            f"{problem}; {reason}",
            span,
            label="terms over tokens compare the same ones",
            notes=note("the vocabulary is set here", stage.span("vocab")),
            help="leave vocab out, and the network reads with the vocabulary of its teacher, or "
            f"learn what it says of {WHOLE_EXAMPLES}",
        )
    elif stage.teacher_cache == "off":
        diagnostics.error(
            "E283",
            f"{problem}: it reads the examples by its own, before the first step, and what it says "
            "is kept",
            stage.span("teacher_cache"),
            notes=note("the teacher is named here", span),
            help="teacher_cache=auto",
            fix=fix(stage.origins["teacher_cache"], "teacher_cache=auto"),
        )


def _has_room(stage: StageSettings, room: int | None, diagnostics: Diagnostics) -> None:
    """Check that a teacher of the same tokens has positions for the rows of a stage."""
    span = stage.span("teacher")
    if room is not None and stage.seq > room:
        diagnostics.error(
            "E284",
            f"rows have {stage.seq} tokens, and the teacher {room} positions",
            stage.span("seq") or span,
            notes=note("the teacher is named here", span),
            help=f"seq={room}",
            fix=fix(stage.origins["seq"], f"seq={room}"),
        )


def _masks(stage: StageSettings, term: Distillation, diagnostics: Diagnostics) -> None:
    if term.compares == "masked" and not any(each.objective.masks for each in stage.objective):
        diagnostics.error(
            "E285",
            f"{term.title} compares masked tokens, and nothing is masked here",
            stage.span("objective"),
            help=f"mask tokens too, as in objective={call_text(term.title, 'over=masked')}+mlm",
        )


def _labels(task: Task) -> str:
    return ", ".join(told_names(task.answer)) or task.answer.kind


def _weigh_something(
    stage: StageSettings, from_here: Sequence[StageSettings], diagnostics: Diagnostics
) -> None:
    """Report terms of weight 0, unless another one trains their heads, here or in a later stage."""
    heads = {
        learned.head_name
        for each in from_here
        for term in each.objective
        if term.weight
        for learned in (
            _filled(term.objective, each) if term.objective.asks_head else (term.objective,)
        )
    }
    for term in stage.objective:
        if not term.weight and term.objective.head_name not in heads:
            taught = isinstance(term.objective, Distillation)
            problem = "nothing is learned from it" if taught else "nothing trains its head"
            way = f", or learn it from a teacher, as in objective=0*{term.name}+kd(logits)"
            diagnostics.error(
                "E288",
                f"{term.name} weighs 0, so {problem}",
                stage.span("objective"),
                help=f"leave {term.name} out" + ("" if taught else way),
            )


def _has_head(stage: StageSettings, shape: Shape, term: KdLogits, diagnostics: Diagnostics) -> None:
    """Check that both networks score the same things, each by one softmax."""
    tasks = _tasks(stage)
    problems = [_task_lacks(shape, term, task) for task in tasks] or [_lacks(stage, shape, term)]
    for problem, help in dict.fromkeys(each for each in problems if each):
        diagnostics.error(
            "E285",
            f"{term.title} compares {problem}",
            stage.span("objective"),
            notes=note("the teacher is named here", stage.span("teacher")),
            help=help,
        )


def _task_lacks(shape: Shape, term: KdLogits, task: Task) -> tuple[str, str] | None:
    """Problem and remedy of a task that a teacher cannot answer like the network."""
    same = [t.objective for t in shape.terms if isinstance(t.objective, Task)]
    if isinstance(task.answer, Span) and not isinstance(task.answer.head, Plain):
        problem = "starts and ends, and the ends of a conditioned head follow from a start"
        return problem, "head=plain in both networks, or a term over states"
    if isinstance(task.answer, Vector):
        return "scores, and vectors of texts have none", "kd(hidden), kd(cls) or kd(relations)"
    if isinstance(task.answer, Score) and term.loss != "mse":
        return "numbers, and the softmax of one number is always 1", "kd(logits, loss=mse)"
    if shape.terms and not any(alike(theirs.answer, task.answer) for theirs in same):
        learned = " and ".join(each.name for each in shape.terms)
        problem = f"the answers to {task.title}: {_labels(task)}, and the teacher learned {learned}"
        problem += "".join(f": {_labels(theirs)}" for theirs in same[:1])
        return problem, "a teacher of the same task, with the same labels in the same order"
    return None


def _lacks(stage: StageSettings, shape: Shape, term: KdLogits) -> tuple[str, str] | None:
    """The same of scores of tokens."""
    heads = [each.objective.head_name for each in shape.terms]
    others = (each.objective for each in stage.objective if not each.objective.taught)
    head = next((each.head_name for each in others if each.scores_tokens), term.head)
    if heads and head not in heads:
        learned = " and ".join(each.name for each in shape.terms)
        problem = f"the scores of {head}, and the teacher learned {learned}"
        return problem, "a teacher that learned the same, or a term that asks for states"
    if "adaptive" in (stage.head.kind, shape.body.head.kind):
        problem = "one softmax, and an adaptive head has several"
        return problem, "give both networks one softmax, as in head=linear table=whole"
    return None
