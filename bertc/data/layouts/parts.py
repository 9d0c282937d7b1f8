"""The parts of each task and their examples; the only file that knows all layouts."""

from pathlib import Path
from typing import assert_never

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.paths import check_path, is_file, is_taken, names_in, user_path
from bertc.data.layouts.conll import read_tagging, tagging_parts
from bertc.data.layouts.example import Example
from bertc.data.layouts.find import DataPart, DataParts
from bertc.data.layouts.glue import glue_parts, read_glue
from bertc.data.layouts.own import own_parts, read_own
from bertc.data.layouts.race import race_parts, read_race
from bertc.data.layouts.related import read_related, related_parts
from bertc.data.layouts.squad import read_squad, squad_parts
from bertc.data.layouts.table import ExampleSource, source_name
from bertc.data.layouts.xnli import read_xnli, xnli_parts
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Embed, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Xnli

CUSTOM_PARTS = ("train", "dev", "test")
"""Parts of custom tasks, each named by an argument."""
OFFICIAL = {
    "glue": "train.tsv, dev.tsv",
    "xnli": "train-en.tsv, dev-de.tsv",
    "squad": "train-v1.1.json, dev-v2.0.json, as version= says",
    "race": "train/high/1.txt",
    "tagging": "eng.train, eng.testa or en-ud-train.conllu",
}
"""Examples of file names in the folder of an official task."""


def training_examples(task: AnyTask) -> list[Example]:
    """The training examples of a task, each with its answer.

    Raises:
        MissingInputError: there is no such file.
        DataError: it is damaged, or not of the task's layout; names file and line.
    """
    return _read(task, _part(task, "train"), labelled=True)


def part_source(task: AnyTask, part: str) -> ExampleSource:
    """The file, folder or data set of a task's part.

    Raises:
        MissingInputError: none is there.
    """
    return _part(task, part).source


def dev_parts(task: AnyTask) -> tuple[str, ...]:
    """The dev parts of a task that exist.

    Raises:
        MissingInputError: the task's folder is not there, or a test file that it names.
    """
    parts = _parts(task)
    test = parts["test"].source if "test" in parts else None
    if isinstance(test, Path) and not is_taken(test):
        raise MissingInputError(f"{task.title}: no test file {test}", check_path(test))
    return tuple(name for name in parts if name.startswith("dev"))


def require_dev_parts(task: AnyTask) -> None:
    """Refuse dev files that are not there."""
    parts = _parts(task)
    for source in (parts[name].source for name in dev_parts(task)):
        if isinstance(source, Path) and not is_taken(source):
            raise MissingInputError(f"{task.title}: {source} is not there", check_path(source))


def scored_parts(task: AnyTask, part: str = "", any_file: bool = False) -> DataParts:
    """The parts that a model is scored on: ``part`` and its variants (``test-de``), else dev parts.

    A single file in place of a folder is a part by its own name. Without dev parts all named files
    are taken if ``any_file``, the training file by its own name.

    Raises:
        MissingInputError: there is no such part; lists those there are.
    """
    data = getattr(task, "data", "")
    if data and not getattr(task, "dev", "") and is_file(user_path(data)):
        if part:
            raise MissingInputError(f"{data} is one file and has no parts", "leave the part out")
        return {data: DataPart(user_path(data))}
    parts = _parts(task)
    stem = part or "dev"
    chosen = {
        name: where
        for name, where in parts.items()
        if name == stem or name.startswith((f"{stem}-", f"{stem}_"))
    }
    if part and not chosen:
        _part(
            task,
            part,
            f"--task \"{task.kind}({part}='...')\"" if part in CUSTOM_PARTS else "check its name",
        )
    if chosen or data or not any_file:
        return chosen
    # A custom task calls its first file train; here it is just a named file.
    return {source_name(p.source) if name == "train" else name: p for name, p in parts.items()}


def scored_examples(task: AnyTask, part: DataPart) -> list[Example]:
    """The examples of a part to score on, each with its answer.

    Raises:
        MissingInputError: there is no such file.
        DataError: as ``part_examples``; or an answer is missing.
    """
    return _read(task, part, labelled=True)


def part_examples(task: AnyTask, part: str) -> list[Example]:
    """The examples of a part by name; those of test parts may have no answers.

    Raises:
        MissingInputError: there is no such part; names those there are.
        DataError: as ``training_examples``; or it has a label that is not among the task's.
    """
    return _read(task, _part(task, part), labelled=not part.startswith("test"))


def read_examples(task: AnyTask, path: Path) -> list[Example]:
    """The examples of any file of the task's layout, with or without answers."""
    return _read(task, DataPart(path), labelled=False)


def _part(task: AnyTask, name: str, help: str = "") -> DataPart:
    """The part of a name; ``help`` says how to name a missing one, by default in the task."""
    parts = _parts(task)
    if name in parts:
        return parts[name]
    known = f"; there are {listed(parts)}" if parts else ""
    if isinstance(task, Classify | Regress | Choose | Tag | Read | Embed):
        where, remedy = "", help or f"none is named: {task.kind}({name}=...)"
    else:
        where, remedy = f" in {task.data}", f"its files are called as in {OFFICIAL[task.kind]}"
        if not parts and (names := names_in(user_path(task.data))):
            known = f", which has {listed(names)}"
    if isinstance(task, Squad):
        remedy += "; or name files themselves: squad(TRAIN, DEV)"
    raise MissingInputError(f"{task.title}: no part {name!r}{where}{known}", remedy)


def _parts(task: AnyTask) -> DataParts:
    match task:
        case Glue():
            return glue_parts(task)
        case Xnli():
            return xnli_parts(task)
        case Squad():
            return squad_parts(task)
        case Race():
            return race_parts(task)
        case Tagging():
            return tagging_parts(task)
        case Classify() | Regress() | Choose() | Tag() | Read():
            return own_parts(task)
        case Embed():
            return related_parts(task)
    assert_never(task)


def _read(task: AnyTask, part: DataPart, labelled: bool) -> list[Example]:
    examples = _examples(task, part, labelled)
    if not examples:
        raise DataError(
            f"{source_name(part.source)}:1: no examples in it", "at least one is needed"
        )
    return examples


def _examples(task: AnyTask, part: DataPart, labelled: bool) -> list[Example]:
    match task:
        case Classify() | Regress() | Choose() | Tag() | Read():
            return read_own(task, part.source, labelled)
        case Embed():
            return [*read_related(task, part, labelled)]
    path = part.source
    assert isinstance(path, Path), "only custom tasks read data sets"
    match task:
        case Glue():
            return [*read_glue(task, path, labelled)]
        case Xnli():
            return [*read_xnli(path, part.language, labelled)]
        case Squad():
            return [*read_squad(path, task.version == 2, labelled)]
        case Race():
            return [*read_race(path, labelled)]
        case Tagging():
            return [*read_tagging(task, path, labelled)]
    assert_never(task)
