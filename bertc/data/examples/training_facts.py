"""Numbers and labels of training examples, found once for as long as their file stays as it is."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from bertc.base.storage.paths import is_file
from bertc.data.examples.task_sets import learned_examples
from bertc.data.layouts import found_labels, part_source, training_examples
from bertc.data.sources.files import file_identity
from bertc.ir.learning.custom_task import AnyTask


class TrainingFacts(NamedTuple):
    """Training examples of a task: how many, and their labels unless it names them."""

    examples: int
    labels: tuple[str, ...]


def training_facts(task: AnyTask) -> TrainingFacts:
    """Count the training examples of a task."""
    source = part_source(task, "train")
    if isinstance(source, Path) and is_file(source):
        return _read(task, file_identity(source))
    return _read(task, object())


@lru_cache(maxsize=64)
def _read(task: AnyTask, identity: object) -> TrainingFacts:
    examples = training_examples(task)
    labels = () if getattr(task, "labels", ()) else found_labels(task, examples)
    return TrainingFacts(len(learned_examples(task, examples)), labels)
