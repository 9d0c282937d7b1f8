"""The pass over teachers: terms are given what follows from them, and misfits are refused."""

from bertc.diagnostics import Diagnostics
from bertc.ir.base import call_text
from bertc.ir.learning.answer import Choice, Span, alike, told_names
from bertc.ir.learning.objective import Distillation, Term
from bertc.ir.learning.task import Task
from bertc.ir.program.complete import Complete, StageSettings
from bertc.ir.program.teacher import FromFolder, NoTeacher, Shape, Teacher
from bertc.ir.terms.kd import KdLogits
from bertc.passes.settings.fixes import fix, note
from bertc.passes.taught_layers import layers_fit, of_layers


def taught_terms(stage: StageSettings) -> tuple[Term, ...]:
    """The objective of a stage in which each term says what follows from teacher and network."""
    return tuple(
        term.model_copy(update={"objective": _filled(term.objective, stage)})
        if isinstance(term.objective, Distillation)
        else term
        for term in stage.objective
    )


def _filled(term: Distillation, stage: StageSettings) -> Distillation:
    """The term with what follows from the other terms, or from the depths and widths of both."""
    if isinstance(term, KdLogits):
        if task := _task(stage):
            return term.model_copy(
                update={
                    "head": task.head_name,
                    "labels": 1 if isinstance(task.answer, Choice) else task.answer.width,
                    "choices": task.answer.most if isinstance(task.answer, Choice) else 0,
                    "pools": task.pooled,
                    "dropout": task.dropout,
                }
            )
        others = (each.objective for each in stage.objective if not each.objective.taught)
        head = next((one.head_name for one in others if one.scores_tokens), term.head)
        return term.model_copy(update={"head": head})
    first = next((teacher.shape for teacher in stage.teacher if teacher.shape), None)
    return of_layers(term, stage, first.body) if first else term


def _task(stage: StageSettings) -> Task | None:
    return next((t.objective for t in stage.objective if isinstance(t.objective, Task)), None)


def teachers(program: Complete, diagnostics: Diagnostics) -> None:
    """Report teachers whom nothing asks, terms without a teacher, and what does not fit.

    ``objective=kd(logits)`` is E280 without a teacher.
    """
    asked = any(_taught(stage) for stage in program.stages)
    if not asked and _known(program.teacher):
        diagnostics.error(
            "E281",
            "a teacher, and no term learns from it",
            program.span("teacher"),
            notes=note("the objective is set here", program.span("objective")),
            help="remove the teacher, or learn from it, as in objective=kd(logits, T=2)+mlm",
            fix=fix(program.origins["teacher"], "teacher=none"),
        )
    for stage in program.stages:
        terms = _taught(stage)
        if terms:
            _stage_fits(stage, terms, diagnostics)


def _taught(stage: StageSettings) -> list[Distillation]:
    each = (term.objective for term in stage.objective)
    return [one for one in each if isinstance(one, Distillation)]


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
        elif isinstance(teacher.source, FromFolder):
            diagnostics.error(
                "E282",
                f"there is no model in {teacher.source.path} to learn from",
                span,
                help='name a run or a model folder, as in teacher="runs/bert"',
            )


def _teacher_fits(
    stage: StageSettings,
    teacher: Teacher,
    shape: Shape,
    terms: list[Distillation],
    diagnostics: Diagnostics,
) -> None:
    """Check that a teacher reads the tokens and rows of a stage, and has what terms need."""
    body, own, span = shape.body, stage.vocab.size, stage.span("teacher")
    if body.vocab_size != own:
        diagnostics.error(
            "E283",
            f"the teacher reads with {body.vocab_size:,} tokens, and this network with {own:,}",
            span,
            label="terms over tokens compare the same ones",
            notes=note("the vocabulary is set here", stage.span("vocab")),
            help="leave vocab out, and the network reads with the vocabulary of its teacher",
        )
    room = body.room
    if room is not None and stage.seq > room:
        diagnostics.error(
            "E284",
            f"rows have {stage.seq} tokens, and the teacher {room} positions",
            stage.span("seq") or span,
            notes=note("the teacher is named here", span),
            help=f"seq={room}",
            fix=fix(stage.origins["seq"], f"seq={room}"),
        )
    for term in terms:
        _masks(stage, term, diagnostics)
        if isinstance(term, KdLogits):
            _has_head(stage, shape, term, diagnostics)
        else:
            layers_fit(stage, len(_known(stage.teacher)) > 1, shape, term, diagnostics)


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


def _has_head(stage: StageSettings, shape: Shape, term: KdLogits, diagnostics: Diagnostics) -> None:
    """Check that both networks score the same thing by one softmax."""
    head, task = _filled(term, stage).head_name, _task(stage)
    heads = [each.objective.head_name for each in shape.terms]
    learned = " and ".join(each.name for each in shape.terms)
    span, problem, help = stage.span("objective"), "", ""
    if task is not None:
        same = [t.objective for t in shape.terms if isinstance(t.objective, Task)]
        several = sum(isinstance(t.objective, Task) for t in stage.objective) > 1
        if several or isinstance(task.answer, Span):
            what = "several tasks" if several else "spans"
            problem = f"{term.title} compares the answers of one task, and these are {what}"
            help = "a stage of one task, or terms over states"
        elif shape.terms and not any(alike(other.answer, task.answer) for other in same):
            problem = f"{term.title} compares the answers to {task.title}: "
            problem += _labels(task) + f", and the teacher learned {learned}"
            problem += "".join(f": {_labels(other)}" for other in same[:1])
            help = "a teacher of the same task, with the same labels in the same order"
    elif heads and head not in heads:
        problem = f"{term.title} compares the scores of {head}, and the teacher learned {learned}"
        help = "a teacher that learned the same, or a term that asks for states"
    elif "adaptive" in (stage.head.kind, shape.body.head.kind):
        problem = f"{term.title} compares one softmax, and an adaptive head has several"
        help = "give both networks one softmax, as in head=linear table=whole"
    if problem:
        diagnostics.error(
            "E285",
            problem,
            span,
            notes=note("the teacher is named here", stage.span("teacher")),
            help=help,
        )
