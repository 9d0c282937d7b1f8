"""Resolving ``--task``: a learned task, optionally with other files, layout or columns."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from bertc.base.diagnostics import DataError, MissingColumnError, MissingInputError, UsageError
from bertc.ir.learning import Glue, Tagging, Task, Term, alike, label_names
from bertc.ir.learning.custom_task import AnyTask, Classify, Many, Tag
from bertc.ir.learning.vector_task import WAYS, Embed, Rerank
from bertc.ir.program import Program, Resolved, Stage
from bertc.lang import load

OWN_KINDS = {
    "labels": ("classify", "label"), "several": ("classify", "label"), "tags": ("tag", "tags"),
    "named-spans": ("spans", "tags"),
    "score": ("regress", "label"), "choice": ("choose", "label"), "span": ("read", "target"),
    "vector": ("embed", "score"),
}  # fmt: skip
"""The task kind for a user's own files and its label argument, by kind of answer."""
FILES = ("train", "dev", "test", "sts", "corpus", "queries", "relevant")
"""Arguments of own-file tasks that name files."""
OF_A_FILE = (*FILES, "negative", "score")
"""Arguments that hold for the files named with them alone."""
TITLES = ("name", "task", "column")
"""Arguments from which a task's title is derived."""
Learned = dict[str, tuple[Stage, AnyTask]]
"""Tasks by title, each with the last stage that learned it."""


def task_of(resolved: Resolved, request: str) -> tuple[Stage, AnyTask]:
    """Find a task and the last stage that learned it; ``request`` may be empty if there is one.

    ``request`` is a title, or a task with that title, ``classify(text=said, dev="a.tsv")``, which
    sets how files are read. Arguments that it omits are taken from the learned task, except files:
    naming one drops the learned ones.

    Of texts to embed it may have learned none.
    """
    learned: Learned = {task.title: (s, task) for s in resolved.stages for task in s.tasks}
    written = _written(request) if "(" in request else None
    if isinstance(written, Embed) and written.title not in learned:
        embedding = [task for _, task in learned.values() if isinstance(task, Embed)]
        if embedding:
            ways = {n: getattr(embedding[-1], n) for n in {*WAYS} - written.model_fields_set}
            written = written.model_copy(update=ways)
        changes = {"objective": (Term(objective=written),)}
        return resolved.stages[-1].model_copy(update=changes), written  # any network makes vectors
    if not learned:
        raise UsageError("this run has learned no task", help='fine-tune it: init="RUN" task=...')
    if written:
        return _with_files(learned, written, request)
    if request in learned:
        return learned[request]
    last = {task.title for task in resolved.stages[-1].tasks} or {*learned}
    if request or len(last) > 1:
        problem = f"no task {request} here" if request else "this run has learned several tasks"
        raise UsageError(problem, help=f"--task {' or '.join(learned)}")
    return learned[last.pop()]


def names_files(request: str, files: Collection[str] = ("data", *FILES)) -> bool:
    """True if the task in ``request`` names files of its own, by one of these arguments."""
    return "(" in request and not _written(request).model_fields_set.isdisjoint(files)


@contextmanager
def columns_told(task: AnyTask, with_labels: bool = False) -> Iterator[None]:
    """Inside this block, extend the error for a missing column by how to name all columns."""
    try:
        yield
    except MissingColumnError as error:
        columns = f'--task "{own_form(task, with_labels)}" names the columns to read'
        raise DataError(error.message, help=f"{error.help}; {columns}") from None


def nothing_to_judge_by(task: AnyTask) -> MissingInputError:
    """The error for a task without a dev part."""
    first = f"{task.task}, " if isinstance(task, Glue) else ""
    return MissingInputError(
        f"{task.title}: no dev part to score",
        help=f"--task \"{task.kind}({first}'FILE')\" scores a file, dev='FILE' in it as the "
        "dev part, --part test or --part train another part that the run names",
    )


def own_form(task: AnyTask, with_labels: bool) -> str:
    """The task in the form for a user's own files, with a placeholder for every column."""
    kind, answer = OWN_KINDS[task.answer.kind]
    if isinstance(task, Rerank):
        kind, answer = task.kind, "label"
    title = () if task.title == kind else (f"name={task.title}",)
    columns = [*task.reads, *([answer] if with_labels else [])]
    return f"{kind}({', '.join([*title, *(f'{column}=COLUMN' for column in columns)])})"


def one_program(setting: str, value: str) -> Program:
    """The program of one setting, as an option of its name says it."""
    programs = load(f"{setting}={value}")
    if len(programs) != 1:
        raise UsageError(f"--{setting} is one value, not a list of {len(programs)}")
    return programs[0]


def _written(request: str) -> AnyTask:
    terms: Any = one_program("task", request).settings["objective"].value
    if [isinstance(term.objective, Task) for term in terms] != [True]:
        raise UsageError(f"{request} is not a single task", help='--task "classify(text=sentence)"')
    task: AnyTask = terms[0].objective
    return task


def _with_files(tasks: Learned, requested: AnyTask, request: str) -> tuple[Stage, AnyTask]:
    # It may be omitted if only one of this kind was learned.
    of_kind = [title for title, (_, learned) in tasks.items() if learned.kind == requested.kind]
    unnamed = requested.model_fields_set.isdisjoint(TITLES)
    title = of_kind[0] if unnamed and len(of_kind) == 1 else requested.title
    if title not in tasks:
        forms = [own_form(learned, with_labels=False) for _, learned in tasks.values()]
        named = next((name for name in TITLES if name in type(requested).model_fields), "")
        names = [f"{named}={title}" for title in tasks] if named else forms
        raise UsageError(f"no task {requested.title} here", help=" or ".join(names))
    stage, learned = tasks[title]
    requested = _complete_task(requested, learned)
    if not alike(learned.judged.answer, requested.judged.answer):
        names = list(label_names(learned.answer)[:8]) or [f"a {learned.answer.kind}"]
        message = f"the answers of the task {title} differ from those that its head was trained on"
        raise UsageError(message, f"its answers are {', '.join(names)}: leave labels out")
    if requested.reads != learned.reads and not is_imported(learned):
        raise UsageError(
            f"the task {title} learned from {' and '.join(learned.reads)}, but {request} reads "
            f"{' and '.join(requested.reads)}",
            help=f'--task "{own_form(learned, with_labels=False)}"',
        )
    terms = tuple(
        term.model_copy(update={"objective": requested}) if term.name == title else term
        for term in stage.objective
    )
    return stage.model_copy(update={"objective": terms}), requested


def _complete_task(requested: AnyTask, learned: AnyTask) -> AnyTask:
    """Fill in unwritten arguments from the learned task."""
    written = {name: getattr(requested, name) for name in requested.model_fields_set}
    if type(requested) is type(learned):
        match requested, learned:
            case Classify(labels=Many(names=()) as many), Classify(labels=Many() as told):
                written["labels"] = told.model_copy(update=many.model_dump(exclude_unset=True))
        if not {"data", *FILES}.isdisjoint(written):
            aside = {name: "" for name in OF_A_FILE if name in type(requested).model_fields}
            written = {**aside, "dev_examples": 0, **written}
        return learned.model_copy(update={**written, **_as_learned(learned, requested)})
    update = _as_learned(learned, requested)
    if isinstance(requested, Classify | Tag | Tagging) and not requested.labels:
        update["labels"] = label_names(learned.answer)
    return requested.model_copy(update=update)


def _as_learned(learned: AnyTask, requested: AnyTask) -> dict[str, Any]:
    """Arguments fixed by training: the head's, and the row layout of choices."""
    both = type(learned).model_fields.keys() & type(requested).model_fields.keys()
    as_requested = {"first", "keeps"} & requested.model_fields_set
    names = ({"head", "features", "layers", "first", "keeps"} & both) - as_requested
    return {name: getattr(learned, name) for name in names}


def is_imported(learned: AnyTask) -> bool:
    """True if the training data of a head is unknown (an imported head)."""
    return "train" in type(learned).model_fields and not getattr(learned, "train", "")
