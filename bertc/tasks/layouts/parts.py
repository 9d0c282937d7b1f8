"""The parts of each task and their examples; the only file that knows all layouts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.paths import check_path, is_file, is_taken, names_in, user_path
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Xnli
from bertc.ir.learning.vector_task import Embed, Rerank
from bertc.tasks.layouts import official, own
from bertc.tasks.layouts.conll import read_tagging, tagging_parts
from bertc.tasks.layouts.example import Example
from bertc.tasks.layouts.related import read_ranked, related
from bertc.tasks.layouts.table import DataPart, DataParts, ExampleSource, source_name

LAYOUTS: Mapping[
    type, tuple[Callable[[Any], DataParts], Callable[[Any, DataPart], Iterable[Example]]]
] = {
    Glue: (official.glue_parts, official.read_glue),
    Xnli: (official.xnli_parts, official.read_xnli),
    Squad: (official.squad_parts, official.read_squad),
    Race: (official.race_parts, official.read_race),
    Tagging: (tagging_parts, read_tagging),
    Classify: (own.own_parts, own.read_answered), Regress: (own.own_parts, own.read_answered),
    Choose: (own.own_parts, own.read_choices), Tag: (own.own_parts, own.read_tagged),
    Read: (own.own_parts, own.read_questions), Embed: (own.own_parts, related),
    Rerank: (own.own_parts, read_ranked),
}  # fmt: skip
"""The parts of each kind of task, by name, and the reading of one."""
CUSTOM_PARTS = ("train", "dev", "test")
"""Parts of custom tasks, each named by an argument."""
OFFICIAL = {
    "glue": "train.tsv, dev.tsv", "xnli": "train-en.tsv, dev-de.tsv",
    "squad": "train-v1.1.json, dev-v2.0.json, as version= says", "race": "train/high/1.txt",
    "tagging": "eng.train, eng.testa or en-ud-train.conllu",
}  # fmt: skip
"""Examples of file names in the folder of an official task."""


def training_examples(task: AnyTask) -> list[Example]:
    """The training examples of a task, each with its answer."""
    return part_examples(task, "train")


def dev_parts(task: AnyTask) -> tuple[str, ...]:
    """The dev parts of a task; refuse missing files of any part but the training one."""
    parts = named_parts(task)
    for name, part in parts.items():
        if name != "train":
            check_there(task, name, part.source)
    return tuple(name for name in parts if name.startswith("dev"))


def check_there(task: AnyTask, part: str, source: ExampleSource) -> None:
    """Refuse a part whose file is missing."""
    if isinstance(source, Path) and not is_taken(source):
        raise MissingInputError(f"{task.title}: no {part} file {source}", check_path(source))


def scored_parts(task: AnyTask, part: str = "", any_file: bool = False) -> DataParts:
    """The parts that a model is scored on: ``part`` and its variants (``test-de``), else dev."""
    data = getattr(task, "data", "")
    if data and not getattr(task, "dev", "") and is_file(user_path(data)):
        if part:
            raise MissingInputError(f"{data} is one file and has no parts", "leave the part out")
        return {data: DataPart(user_path(data))}
    parts = named_parts(task)
    stem = part or "dev"
    variants = (f"{stem}-", f"{stem}_")
    chosen = {n: p for n, p in parts.items() if n == stem or n.startswith(variants)}
    if part and not chosen:
        named = f"--task \"{task.kind}({part}='...')\""
        part_named(task, part, named if part in CUSTOM_PARTS else "check its name")
    if chosen or data or not any_file:
        return chosen
    # A custom task calls its first file train; here it is just a named file.
    return {source_name(p.source) if name == "train" else name: p for name, p in parts.items()}


def part_examples(task: AnyTask, part: str) -> list[Example]:
    """The examples of a part by name; those of test parts may have no answers."""
    named = part_named(task, part)._replace(labelled=not part.startswith("test"))
    return read_examples(task, named)


def read_examples(task: AnyTask, part: DataPart) -> list[Example]:
    """The examples of any file of the task's layout."""
    return [*examples_of(task, part)]


def examples_of(task: AnyTask, part: DataPart) -> Iterator[Example]:
    """The same one by one, of a user's own file while it is read."""
    _, read = LAYOUTS[type(task)]
    empty = True
    for example in read(task, part):
        yield example
        empty = False
    if empty:
        name = source_name(part.source)
        raise DataError(f"{name}:1: no examples in it", "at least one is needed")


def part_named(task: AnyTask, name: str, help: str = "") -> DataPart:
    """The part of a name; ``help`` says how to name a missing one, by default in the task."""
    parts = named_parts(task)
    if name in parts:
        return parts[name]
    known = f"; there are {listed(parts)}" if parts else ""
    if isinstance(task, own.Own):
        where, remedy = "", help or f"none is named: {task.kind}({name}=...)"
    else:
        where, remedy = f" in {task.data}", f"its files are called as in {OFFICIAL[task.kind]}"
        if not parts and (names := names_in(user_path(task.data))):
            known = f", which has {listed(names)}"
    if isinstance(task, Squad):
        remedy += "; or name files themselves: squad(TRAIN, DEV)"
    raise MissingInputError(f"{task.title}: no part {name!r}{where}{known}", remedy)


def named_parts(task: AnyTask) -> DataParts:
    """The parts of a task by name, whether their files are there or not."""
    parts, _ = LAYOUTS[type(task)]
    return parts(task)
