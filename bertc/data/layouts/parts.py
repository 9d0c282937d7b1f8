"""What each task reads, part by part: the only place that knows all layouts."""

from pathlib import Path
from typing import assert_never

from bertc.data.layouts.conll import read_tagging, tagging_parts
from bertc.data.layouts.example import Example
from bertc.data.layouts.find import Part, Parts
from bertc.data.layouts.glue import glue_parts, read_glue
from bertc.data.layouts.own import own_parts, read_own
from bertc.data.layouts.race import race_parts, read_race
from bertc.data.layouts.squad import read_squad, squad_parts
from bertc.data.layouts.table import named
from bertc.data.layouts.xnli import read_xnli, xnli_parts
from bertc.diagnostics import DataError, MissingInputError, listed
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Xnli
from bertc.storage.paths import is_file, is_taken, user_path

FILES = ("train", "dev", "test")
"""Parts that an argument of one's own tasks names."""
OFFICIAL = {
    "glue": "train.tsv, dev.tsv",
    "xnli": "train-en.tsv, dev-de.tsv",
    "squad": "train-v1.1.json, dev-v2.0.json, as version= says",
    "race": "train/high/1.txt",
    "tagging": "eng.train, eng.testa or en-ud-train.conllu",
}
"""Names that files of a folder have."""


def training_examples(task: AnyTask) -> list[Example]:
    """What is learned from; every example has its answer.

    Raises:
        MissingInputError: there is no such file.
        DataError: it is damaged, or not of the task's layout; names file and line.
    """
    return _read(task, _part(task, "train"), labelled=True)


def judged_parts(task: AnyTask) -> tuple[str, ...]:
    """The parts that scores are computed on, as far as there are files.

    Raises:
        MissingInputError: the task's folder is not there, or a test file that it names.
    """
    parts = _parts(task)
    test = parts["test"].source if "test" in parts else None
    if isinstance(test, Path) and not is_taken(test):
        raise MissingInputError(f"{task.title}: no test file {test}", "check the path")
    return tuple(name for name in parts if name.startswith("dev"))


def scored_parts(task: AnyTask, part: str = "", any_file: bool = False) -> Parts:
    """The parts that a model is scored on: a file that stands in place of a folder, by its name;
    ``part`` and those whose names begin with it (``test-de``); else those to judge by, or without
    them, if that was asked for, ``any_file`` that is named, the first by its name.

    Raises:
        MissingInputError: there is no such part; names those there are.
    """
    data = getattr(task, "data", "")
    if data and not getattr(task, "dev", "") and is_file(user_path(data)):
        if part:
            raise MissingInputError(f"{data} is one file and has no parts", "leave the part out")
        return {data: Part(user_path(data))}
    parts = _parts(task)
    asked = part or "dev"
    found = {
        name: where
        for name, where in parts.items()
        if name == asked or name.startswith((f"{asked}-", f"{asked}_"))
    }
    if part and not found:
        _part(
            task,
            part,
            f"--task \"{task.kind}({part}='...')\"" if part in FILES else "check its name",
        )
    if found or data or not any_file:
        return found
    # The first file is what one's own task calls train; here it is only the one that was named.
    return {named(p.source) if name == "train" else name: p for name, p in parts.items()}


def scored_examples(task: AnyTask, part: Part) -> list[Example]:
    """The examples of a part, each with its answer.

    Raises:
        MissingInputError: there is no such file.
        DataError: as ``part_examples``; or an answer is missing.
    """
    return _read(task, part, labelled=True)


def part_examples(task: AnyTask, part: str) -> list[Example]:
    """A part by name: those to judge by have all answers, those of a test perhaps none.

    Raises:
        MissingInputError: there is no such part; names those there are.
        DataError: as ``training_examples``; or it has a label that is not among the task's.
    """
    return _read(task, _part(task, part), labelled=not part.startswith("test"))


def read_examples(task: AnyTask, path: Path) -> list[Example]:
    """Any file of the task's layout, with answers or without them.

    Raises:
        MissingInputError, DataError: as ``part_examples``.
    """
    return _read(task, Part(path), labelled=False)


def _part(task: AnyTask, name: str, told: str = "") -> Part:
    """The part of that name; ``told`` is how one is named where none is, if not in the task."""
    parts = _parts(task)
    if name in parts:
        return parts[name]
    if isinstance(task, Classify | Regress | Choose | Tag | Read):
        where, there = "", told or f"none is named: {task.kind}({name}=...)"
    else:
        where, there = f" in {task.data}", f"its files are called as in {OFFICIAL[task.kind]}"
    if isinstance(task, Squad):
        there += "; or name files themselves: squad(TRAIN, DEV)"
    found = f"; there are {listed(parts)}" if parts else ""
    raise MissingInputError(f"{task.title}: no part {name!r}{where}{found}", there)


def _parts(task: AnyTask) -> Parts:
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
    assert_never(task)


def _read(task: AnyTask, part: Part, labelled: bool) -> list[Example]:
    found = _examples(task, part, labelled)
    if not found:
        raise DataError(f"{named(part.source)}:1: no examples in it", "at least one is needed")
    return found


def _examples(task: AnyTask, part: Part, labelled: bool) -> list[Example]:
    match task:
        case Classify() | Regress() | Choose() | Tag() | Read():
            return read_own(task, part.source, labelled)
    path = part.source
    assert isinstance(path, Path), "only tasks of one's own read data sets"
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
