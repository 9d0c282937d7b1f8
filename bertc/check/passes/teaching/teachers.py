"""The pass over teachers: terms are given what follows from them, and misfits are refused."""

from collections.abc import Sequence

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings import Checker
from bertc.check.passes.teaching.taught_layers import fill_layers, layers_fit
from bertc.ir.fixes import call_text
from bertc.ir.learning import FromFolder, NamedSpans, Objective, Shape, Task, Teacher, Term
from bertc.ir.learning.answer import Choice, Plain, Score, Several, Span, Vector, alike, label_names
from bertc.ir.learning.objective import Distillation, NoTeacher
from bertc.ir.program import Complete, CompleteStage
from bertc.ir.terms.heads import over_tokens
from bertc.ir.terms.kd import KdLogits, OfLayers
from bertc.ir.terms.node import asks_head
from bertc.ir.vocabulary import table_rows


def taught_terms(stage: CompleteStage) -> tuple[Term, ...]:
    """The terms of a stage, for scores one of each task, with what follows from its networks."""
    return tuple(
        term if filled is term.objective else term.model_copy(update={"objective": filled})
        for term in stage.objective
        for filled in _fill(term.objective, stage)
    )


def _fill(term: Objective, stage: CompleteStage) -> tuple[Objective, ...]:
    """The term with what follows from other terms, or from the depths and widths of networks."""
    if isinstance(term, Task):
        return (term.reading(stage.features, stage.layers),)
    if isinstance(term, KdLogits):
        tasks = stage.tasks
        if tasks:
            return tuple(_of_task(term, task, len(tasks) > 1) for task in tasks)
        return (term.model_copy(update={"head": _token_head(stage, term)}),)
    first = next((teacher.shape for teacher in stage.teacher if teacher.shape), None)
    if first is None or not isinstance(term, OfLayers):
        return (term,)
    return (fill_layers(term, stage, first.body),)


def _token_head(stage: CompleteStage, term: KdLogits) -> str:
    """The head over tokens that another term of the stage has."""
    learned = (t.objective for t in stage.objective if not t.objective.teaching)
    names = (objective.head_name for objective in learned if over_tokens(objective.head_node))
    return next(names, term.head)


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


def teachers(program: Complete, diagnostics: Diagnostics) -> None:
    """Report teachers whom nothing asks, terms without a teacher, and what does not fit.

    ``objective=kd(logits)`` is E280 without a teacher.
    """
    is_read = any(_taught(stage) for stage in program.stages)
    if not is_read and _real(program.teacher):
        message = "no term learns from the teacher, so it is not read"
        also = ("objective", "the objective is set here")
        help = "remove the teacher, or learn from it, as in objective=kd(logits, T=2)+mlm"
        Checker(program, diagnostics).report("R110", message, "teacher", also=also, help=help)
    for number, stage in enumerate(program.stages):
        terms = _taught(stage)
        if terms:
            _stage_fits(stage, terms, diagnostics)
        _weigh_something(stage, program.stages[number:], diagnostics)


def _taught(stage: CompleteStage) -> list[Distillation]:
    objectives = (term.objective for term in stage.objective)
    return [objective for objective in objectives if isinstance(objective, Distillation)]


def _real(teachers: tuple[Teacher, ...]) -> list[Teacher]:
    return [teacher for teacher in teachers if not isinstance(teacher.source, NoTeacher)]


def _stage_fits(stage: CompleteStage, terms: list[Distillation], diagnostics: Diagnostics) -> None:
    known, help = _real(stage.teacher), 'name a run or a model folder, as in teacher="runs/bert"'
    # Where part of the spec cannot be read, perhaps the teacher, no folder was looked into.
    unread = any(diagnostic.code < "E2" for diagnostic in diagnostics.found)
    if not known and not unread:
        message = f"{terms[0].title} learns from a teacher, and there is none"
        diagnostics.error("E280", message, stage.span("objective"), help=help)
    for teacher in known:
        if teacher.shape is not None:
            _teacher_fits(Checker(stage, diagnostics), teacher.shape, terms, len(known) > 1)
        elif isinstance(teacher.source, FromFolder) and not unread:
            message = f"there is no model in {teacher.source.path} to learn from"
            diagnostics.error("E282", message, stage.span("teacher"), help=help)


def _teacher_fits(
    check: Checker[CompleteStage], shape: Shape, terms: list[Distillation], several: bool
) -> None:
    stage, room, here = check.settings, shape.body.room, "the teacher is named here"
    if shape.body.vocab_size != table_rows(stage.vocab):
        check.report(
            "E283",
            f"the teacher reads with {shape.body.vocab_size:,} tokens, and this network with "
            f"{table_rows(stage.vocab):,}",
            "teacher",
            label="both read the same tokens",
            also=("vocab", "the vocabulary is set here"),
            help="leave vocab out, and the network reads with the vocabulary of its teacher",
        )
    elif room is not None and stage.seq > room:
        message = f"rows have {stage.seq} tokens, and the teacher {room} positions"
        also = ("teacher", here)
        check.report("E284", message, ("seq", "teacher"), also=also, help=f"seq={room}")
    masked = any(taught.objective.masks for taught in stage.objective)
    for term in terms:
        if term.compares == "masked" and not masked:
            example = f"objective={call_text(term.title, 'over=masked')}+mlm"
            message = f"{term.title} compares masked tokens, and nothing is masked here"
            check.report("E285", message, "objective", help=f"mask tokens too, as in {example}")
        if isinstance(term, KdLogits):
            problems = [_task_lacks(shape, term, task) for task in stage.tasks]
            problems = problems or [_lacks(stage, shape, term)]
            for problem, help in dict.fromkeys(filter(None, problems)):
                message, also = f"{term.title} compares {problem}", ("teacher", here)
                check.report("E285", message, "objective", also=also, help=help)
        else:
            layers_fit(stage, several, shape, term, check.diagnostics)


def _labels(task: Task) -> str:
    return ", ".join(label_names(task.answer)) or task.answer.kind


def _weigh_something(
    stage: CompleteStage, from_here: Sequence[CompleteStage], diagnostics: Diagnostics
) -> None:
    """Report terms of weight 0, unless another one trains their heads, here or in a later stage."""
    if all(term.weight for term in stage.objective):
        return
    heads = {
        learned.head_name
        for a_stage in from_here
        for term in a_stage.objective
        if term.weight
        for learned in (
            _fill(term.objective, a_stage) if asks_head(term.objective) else (term.objective,)
        )
    }
    for term in stage.objective:
        if not term.weight and term.objective.head_name not in heads:
            taught = isinstance(term.objective, Distillation)
            problem = "nothing is learned from it" if taught else "nothing trains its head"
            way = f", or learn it from a teacher, as in objective=0*{term.name}+kd(logits)"
            help = f"leave {term.name} out" + ("" if taught else way)
            diagnostics.error(
                "E288", f"{term.name} weighs 0, so {problem}", stage.span("objective"), help=help
            )


def _task_lacks(shape: Shape, term: KdLogits, task: Task) -> tuple[str, str] | None:
    """Problem and remedy of a task that a teacher cannot answer like the network."""
    same = [t.objective for t in shape.terms if isinstance(t.objective, Task)]
    if isinstance(task.answer, Span) and not isinstance(task.answer.head, Plain):
        problem = "starts and ends, and the ends of a conditioned head follow from a start"
        return problem, "head=plain in both networks, or a term over states"
    if isinstance(task.answer, NamedSpans):
        return "scores, and those of spans are by names drawn anew", "kd(hidden), kd(relations)"
    if isinstance(task.answer, Vector):
        return "scores, and vectors of texts have none", "kd(hidden), kd(cls) or kd(relations)"
    if isinstance(task.answer, Several) and term.loss != "mse":
        return "several labels, and a softmax has one", "kd(logits, loss=mse)"
    if isinstance(task.answer, Score) and term.loss != "mse":
        return "numbers, and the softmax of one number is always 1", "kd(logits, loss=mse)"
    if shape.terms and not any(alike(answered.answer, task.answer) for answered in same):
        learned = " and ".join(taught.name for taught in shape.terms)
        problem = f"the answers to {task.title}: {_labels(task)}, and the teacher learned {learned}"
        problem += "".join(f": {_labels(answered)}" for answered in same[:1])
        return problem, "a teacher of the same task, with the same labels in the same order"
    return None


def _lacks(stage: CompleteStage, shape: Shape, term: KdLogits) -> tuple[str, str] | None:
    heads = [taught.objective.head_name for taught in shape.terms]
    head = _token_head(stage, term)
    if heads and head not in heads:
        learned = " and ".join(taught.name for taught in shape.terms)
        problem = f"the scores of {head}, and the teacher learned {learned}"
        return problem, "a teacher that learned the same, or a term that asks for states"
    if "adaptive" in (stage.head.kind, shape.body.head.kind):
        problem = "one softmax, and an adaptive head has several"
        return problem, "give both networks one softmax, as in head=linear table=whole"
    return None
