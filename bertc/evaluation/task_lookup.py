"""Which task a tuned model is asked for: one it learned, or the same in files of another shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertc.diagnostics import DataError, Diagnostics, MissingColumnError, UsageError
from bertc.ir.learning.answer import alike, told_names
from bertc.ir.learning.custom_task import AnyTask, Classify, Tag
from bertc.ir.learning.task import Tagging, Task
from bertc.ir.program.resolved import Resolved, Stage
from bertc.syntax import load

OWN_KINDS = {
    "labels": ("classify", "label"),
    "score": ("regress", "label"),
    "choice": ("choose", "label"),
    "tags": ("tag", "tags"),
    "span": ("read", "target"),
}
"""The task that reads one's own files and its argument for what is right, by what it answers."""
FILES = ("train", "dev", "test")
"""Arguments of one's own tasks that name files."""
TITLES = ("name", "task", "column")
"""Arguments that a title is made of."""


def task_of(resolved: Resolved, told: str) -> tuple[Stage, AnyTask]:
    """A task and the last stage that learns it; nothing need be told of a run that ends in one.

    ``told`` is its title, or a task of that title, ``classify(text=said, dev="a.tsv")``, which then
    says how files are read. What it leaves out is as it was learned, but for files: one that is
    named stands alone.

    Raises:
        UsageError: if there is none, or several and none is told, or it asks for other answers, or
            of other texts.
        SpecError: if the task cannot be read.
    """
    found = {task.title: (stage, task) for stage in resolved.stages for task in stage.tasks}
    if not found:
        raise UsageError(
            "this run has learned no task", help='train one from it: init="RUN" task=...'
        )
    if "(" in told:
        return _with_files(found, _written(told), told)
    if told in found:
        return found[told]
    last = {task.title for task in resolved.stages[-1].tasks} or {*found}
    if told or len(last) > 1:
        said = f"no task {told} here" if told else "this run has learned several tasks"
        raise UsageError(said, help=f"--task {' or '.join(found)}")
    return found[last.pop()]


def names_files(told: str) -> bool:
    """Whether what is told of a task names files of its own.

    Raises:
        SpecError: if the task cannot be read.
    """
    return "(" in told and not {"data", *FILES}.isdisjoint(_written(told).model_fields_set)


@contextmanager
def columns_told(task: AnyTask, judged: bool = False) -> Iterator[None]:
    """Inside, a file without a column that the task reads is refused with how to name them all.

    Raises:
        DataError: if a column is missing.
    """
    try:
        yield
    except MissingColumnError as error:
        told = f'--task "{own_form(task, judged)}" names the columns that are read'
        raise DataError(error.message, help=f"{error.help}; {told}") from None


def own_form(task: AnyTask, judged: bool) -> str:
    """A task for files of one's own that asks the same, with every column it reads to be named."""
    kind, answer = OWN_KINDS[task.answer.kind]
    title = () if task.title == kind else (f"name={task.title}",)
    columns = [*task.reads, *([answer] if judged else [])]
    return f"{kind}({', '.join([*title, *(f'{column}=COLUMN' for column in columns)])})"


def _written(told: str) -> AnyTask:
    diagnostics = Diagnostics()
    programs = load(f"task={told}", (), diagnostics)
    diagnostics.raise_if_any()
    terms: Any = programs[0].settings["objective"].value if len(programs) == 1 else ()
    if [isinstance(term.objective, Task) for term in terms] != [True]:
        raise UsageError(f"{told} is not one task", help='--task "classify(text=sentence)"')
    task: AnyTask = terms[0].objective
    return task


def _with_files(
    found: dict[str, tuple[Stage, AnyTask]], asked: AnyTask, told: str
) -> tuple[Stage, AnyTask]:
    title = _meant(found, asked)
    if title not in found:
        forms = [own_form(learned, judged=False) for _, learned in found.values()]
        named = next((name for name in TITLES if name in type(asked).model_fields), "")
        names = [f"{named}={title}" for title in found] if named else forms
        raise UsageError(f"no task {asked.title} here", help=" or ".join(names))
    stage, learned = found[title]
    asked = _completed(asked, learned)
    if not alike(learned.answer, asked.answer):
        names = list(told_names(learned.answer)[:8]) or [f"a {learned.answer.kind}"]
        raise UsageError(
            f"the task {title} has other answers than its head learned",
            help=f"it tells {', '.join(names)}",
        )
    if asked.reads != learned.reads and not imported(learned):
        raise UsageError(
            f"the task {title} learned from {_listed(learned)}, and {told} reads {_listed(asked)}",
            help=f'--task "{own_form(learned, judged=False)}"',
        )
    terms = tuple(
        term.model_copy(update={"objective": asked}) if term.name == title else term
        for term in stage.objective
    )
    return stage.model_copy(update={"objective": terms}), asked


def _meant(found: dict[str, tuple[Stage, AnyTask]], asked: AnyTask) -> str:
    """The title of the learned task: the only one of its kind need not be named."""
    same = [title for title, (_, learned) in found.items() if learned.kind == asked.kind]
    unnamed = asked.model_fields_set.isdisjoint(TITLES)
    return same[0] if unnamed and len(same) == 1 else asked.title


def _completed(asked: AnyTask, learned: AnyTask) -> AnyTask:
    """With what was not written taken from what was learned."""
    written = {name: getattr(asked, name) for name in asked.model_fields_set}
    if type(asked) is type(learned):
        if not {"data", *FILES}.isdisjoint(written):
            aside = {name: "" for name in FILES if name in type(asked).model_fields}
            written = {**aside, "dev_examples": 0, **written}
        return learned.model_copy(update={**written, **_as_learned(learned, asked)})
    update = _as_learned(learned, asked)
    if isinstance(asked, Classify | Tag | Tagging) and not asked.labels:
        update["labels"] = told_names(learned.answer)
    return asked.model_copy(update=update)


def _as_learned(learned: AnyTask, asked: AnyTask) -> dict[str, Any]:
    """The head, and how a choice's row is laid out, which follow from what the head learned."""
    both = type(learned).model_fields.keys() & type(asked).model_fields.keys()
    given = {"first", "keeps"} & asked.model_fields_set
    names = ({"head", "first", "keeps"} & both) - given
    return {name: getattr(learned, name) for name in names}


def imported(learned: AnyTask) -> bool:
    """Whether nobody knows what a head was learned from."""
    return "train" in type(learned).model_fields and not getattr(learned, "train", "")


def _listed(task: AnyTask) -> str:
    return " and ".join(task.reads)
