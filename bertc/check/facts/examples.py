"""Facts from the files of tasks: labels, numbers of examples, lengths of rows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from operator import mul
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError
from bertc.base.storage.paths import is_file
from bertc.check.facts.texts import remark_on
from bertc.ir.learning import Many, Term
from bertc.ir.learning.answer import BalancedLoss, label_names
from bertc.ir.learning.task import UNKNOWN, OwnTask, Task
from bertc.ir.program import Given, Origin, Resolved, Stage, TaskStage
from bertc.ir.vocabulary import TokenizerFile, Vocabulary


def count_examples(term: Term) -> Term:
    """The term with the labels and the number of training examples of its task, if it has one."""
    task = term.objective
    if not isinstance(task, Task):
        return term
    asks = label_names(task.answer) == UNKNOWN
    balances = isinstance(task.class_loss, BalancedLoss) and not task.class_loss.weights
    imported = isinstance(task, OwnTask) and not task.train
    if not (asks or (balances and not imported)) and (task.examples or imported):
        return term
    from bertc.tasks.examples.task_sets import training_facts

    examples, labels, weights = training_facts(task)
    update: dict[str, Any] = {"examples": examples}
    if balances:
        update["loss"] = task.class_loss.model_copy(update={"weights": weights})
    if asks:
        many: Any = getattr(task, "labels", ())
        named = isinstance(many, Many)
        update["labels"] = many.model_copy(update={"names": labels}) if named else labels
    return term.model_copy(update={"objective": task.model_copy(update=update)})


def read_files(objectives: Iterable[Given], diagnostics: Diagnostics) -> None:
    """Read the training and dev files of tasks; report each that cannot be used, as E309."""
    from bertc.tasks.layouts.parts import check_there, named_parts, part_examples
    from bertc.tasks.layouts.table import DataParts
    from bertc.text.sources.files import begin_as_text

    for given in objectives:
        for index, term in enumerate(given.value):
            if not isinstance(term.objective, Task):
                continue
            reported = partial(_report, diagnostics, given.origin, index)
            parts: DataParts = {}
            with reported("train"):
                term = count_examples(term)
            task: Any = term.objective
            with reported("data"):
                parts = named_parts(task)
            for name, part in parts.items():
                with reported(name.removeprefix("dev-")):
                    if name.startswith("dev"):
                        part_examples(task, name)
                    elif name != "train":
                        check_there(task, name, part.source)
            sources = (p.source for name, p in parts.items() if name.startswith(("train", "dev")))
            if not diagnostics.found:
                files = [path for path in sources if isinstance(path, Path) and is_file(path)]
                remark_on(begin_as_text(files), given.origin.span, diagnostics)


@contextmanager
def _report(diagnostics: Diagnostics, origin: Origin, index: int, within: str) -> Iterator[None]:
    """Report an error of the block at the argument of a task, else at all of the task."""
    try:
        yield
    except (MissingInputError, DataError) as error:
        places = ((index, "objective", name) for name in (within, "data"))
        spans = [origin.parts[place] for place in places if place in origin.parts]
        diagnostics.error("E309", error.message, (*spans, origin.span)[0], help=error.help)


def row_lengths(programs: Sequence[Resolved]) -> list[tuple[int, ...]]:
    """Mean row length in tokens of each program, stage by stage."""
    once = cache(_row_length)

    def length(stage: Stage, vocabulary: Vocabulary) -> int:
        if not (isinstance(stage, TaskStage) and isinstance(vocabulary, TokenizerFile)):
            return stage.seq
        segments = stage.encoder.kinds_of_segments
        return once(stage.tasks, stage.smoothing, stage.seq, segments, vocabulary)

    return [tuple(length(s, program.vocabulary) for s in program.stages) for program in programs]


def full_rows(program: Resolved, lengths: Sequence[int]) -> bool:
    """True if rows of a task count as full, as ``row_lengths`` has them if it knows no better."""
    return any(
        isinstance(stage, TaskStage) and length == stage.seq
        for stage, length in zip(program.stages, lengths, strict=True)
    )


def _row_length(
    tasks: tuple[Any, ...], smoothing: float, seq: int, segments: int, vocabulary: TokenizerFile
) -> int:
    from bertc.tasks.examples.task_sets import mean_length
    from bertc.text.vocab.vocabulary import load_vocabulary

    try:
        known = load_vocabulary(vocabulary)
        lengths = [mean_length(task, known, seq, segments) for task in tasks]
    except MissingInputError:  # a spec may say how many examples there are without having them
        return seq
    # Several are drawn in proportion to their size as the spec has it.
    sizes: list[float] = [task.examples**smoothing for task in tasks]
    mean: float = sum(map(mul, sizes, lengths)) / sum(sizes)
    return math.ceil(mean)
