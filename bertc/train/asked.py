"""Which task a tuned model is asked for: one it learned, or the same in files of another shape."""

from typing import Any

from bertc.diagnostics import Diagnostics, UsageError
from bertc.ir.answer import alike, told_names
from bertc.ir.own_task import AnyTask, Classify, Tag
from bertc.ir.resolved import Resolved, Stage
from bertc.ir.task import Tagging, Task
from bertc.syntax import load


def task_of(resolved: Resolved, told: str) -> tuple[Stage, AnyTask]:
    """A task and the last stage that learns it; nothing need be told of a run that ends in one.

    ``told`` is its title, or a task of that title, ``classify(text=said, dev="a.tsv")``, which then
    says how files are read. Labels that it does not name are those learned.

    Raises:
        UsageError: if there is none, or several and none is told, or it asks for other answers.
        SpecError: if the task cannot be read.
    """
    found = {task.title: (stage, task) for stage in resolved.stages for task in stage.tasks}
    if not found:
        raise UsageError(
            "this run has learned no task", help='train one from it: init="RUN" task=...'
        )
    if "(" in told:
        return _with_files(found, _written(told))
    if told in found:
        return found[told]
    last = {task.title for task in resolved.stages[-1].tasks} or {*found}
    if told or len(last) > 1:
        said = f"no task {told} here" if told else "this run has learned several tasks"
        raise UsageError(said, help=f"--task {' or '.join(found)}")
    return found[last.pop()]


def _written(told: str) -> AnyTask:
    diagnostics = Diagnostics()
    programs = load(f"task={told}", (), diagnostics)
    diagnostics.raise_if_any()
    terms: Any = programs[0].settings["objective"].value if len(programs) == 1 else ()
    if [isinstance(term.objective, Task) for term in terms] != [True]:
        raise UsageError(f"{told} is not one task", help='--task "classify(text=sentence)"')
    task: AnyTask = terms[0].objective
    return task


def _with_files(found: dict[str, tuple[Stage, AnyTask]], asked: AnyTask) -> tuple[Stage, AnyTask]:
    if asked.title not in found:
        raise UsageError(f"no task {asked.title} here", help=f"name={' or name='.join(found)}")
    stage, learned = found[asked.title]
    if isinstance(asked, Classify | Tag | Tagging) and not asked.labels:
        asked = asked.model_copy(update={"labels": told_names(learned.answer)})
    asked = asked.model_copy(update=_as_learned(learned, asked))
    if not alike(learned.answer, asked.answer):
        names = ", ".join(told_names(learned.answer)[:8]) or f"a {learned.answer.kind}"
        raise UsageError(
            f"the task {asked.title} has other answers than its head learned",
            help=f"it tells {names}",
        )
    terms = tuple(
        term.model_copy(update={"objective": asked}) if term.name == asked.title else term
        for term in stage.objective
    )
    return stage.model_copy(update={"objective": terms}), asked


def _as_learned(learned: AnyTask, asked: AnyTask) -> dict[str, Any]:
    """The head, and how a choice's row is laid out, which follow from what the head learned."""
    both = type(learned).model_fields.keys() & type(asked).model_fields.keys()
    given = {"first", "keeps"} & asked.model_fields_set
    names = ({"head", "first", "keeps"} & both) - given
    return {name: getattr(learned, name) for name in names}
