"""Minimal pairs: sentences of which the first is the right one, from a folder of .jsonl files.

The layouts are those of BLiMP and its supplement, EWoK, COMPS and entity tracking, as
babylm/evaluation-pipeline-2025 reads them (sentence_zero_shot/read_files.py), and ``good`` and
``bad`` with an optional ``context`` before both.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bertc.base.diagnostics import DataError, MissingInputError, listed
from bertc.base.storage.files import suffix
from bertc.base.storage.paths import check_path, is_file, is_folder, user_path
from bertc.tasks.layouts.table import names_of_columns, table
from bertc.text.sources.cells import label, text
from bertc.text.sources.tables import ColumnSelection

LAYOUTS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("sentence_good", "sentence_bad"): ("UID", "linguistics_term", "field"),
    ("Context1", "Target1", "Target2"): ("Domain", "ContextType", "ContextDiff", "TargetDiff"),
    ("prefix_acceptable", "prefix_unacceptable", "property_phrase"): (),
    ("input_prefix", "options"): ("numops",),
    ("good", "bad"): ("context", "phenomenon"),
}
"""Columns that a layout needs, and those that it may have."""


class MinimalPair(NamedTuple):
    """Sentences, the right one first, scored from the characters ``begins`` on.

    ``groups`` are the names of what it tests, by kind of group; the first one is averaged over. The
    total is the mean over the families of the means of their phenomena.
    """

    place: str
    sentences: tuple[str, ...]
    begins: tuple[int, ...]
    groups: Mapping[str, str]
    family: str = ""

    @property
    def phenomenon(self) -> str:
        """The name of what it tests."""
        return next(iter(self.groups.values()))


def read_pairs(folder: str) -> list[MinimalPair]:
    """All pairs of a folder's .jsonl files, or of one file, in the order of their names."""
    path = user_path(folder)
    if not is_file(path) and not is_folder(path):
        raise MissingInputError(f"there is no folder {path} of pairs", check_path(path))
    files = [path] if is_file(path) else sorted(path.iterdir())
    files = [file for file in files if suffix(file) == ".jsonl"]
    if not files:
        help = "name the folder that has the files themselves, such as blimp/adjunct_island.jsonl"
        raise MissingInputError(f"{path} has no .jsonl file of pairs", help)
    pairs = [pair for file in files for pair in _of_file(file)]
    if not pairs:
        raise DataError(f"{path}: its .jsonl files have no rows", "rows of good and bad sentences")
    if all(len({*pair.sentences}) == 1 for pair in pairs):
        raise DataError(
            f"{pairs[0].place}: the good and the bad sentence are equal, as in all pairs of {path}",
            "put another sentence in the column of bad ones",
        )
    return pairs


def _of_file(file: Path) -> Iterator[MinimalPair]:
    if not (names := names_of_columns(file)):
        return
    columns = next((layout for layout in LAYOUTS if {*layout} <= {*names}), None)
    if columns is None:
        raise DataError(
            f"{file}: no layout of pairs has the columns {listed(names)}",
            "name them good and bad, and what both begin with context; or as in one of "
            + "; ".join(listed(layout) for layout in LAYOUTS),
        )
    more, stem = LAYOUTS[columns], file.name.partition(".jsonl")[0]
    for place, cells in table(file, ColumnSelection(columns, more)):
        row = dict(zip((*columns, *more), cells, strict=True))
        if empty := [name for name in columns if row[name] in ("", None, [])]:
            raise DataError(f"{place}: {empty[0]!r} is empty", "a sentence in each column of pairs")
        texts = {name: text(row[name], place, name) for name in columns if name != "options"}
        yield _pair(columns, place, stem, texts, row)


def _pair(
    columns: Sequence[str], place: str, stem: str, texts: Mapping[str, str], row: Mapping[str, Any]
) -> MinimalPair:
    def named(*names: str) -> dict[str, str]:
        return {name: label(row[name], place, name) for name in names if row[name] is not None}

    match [*texts.values()]:
        case [first, *targets] if columns[0] == "Context1":
            more = named("ContextType", "ContextDiff", "TargetDiff")
            groups = {"UID": named("Domain").get("Domain", stem)} | more
            return _read_continuations(place, [f" {target}" for target in targets], groups, first)
        case [good, bad, end] if columns[0] == "prefix_acceptable":
            sentences = f"{good} {end}", f"{bad} {end}"
            return MinimalPair(place, sentences, (len(good) + 1, len(bad) + 1), {"UID": stem})
        case [before] if columns[0] == "input_prefix":
            options = row["options"]
            if not isinstance(options, list) or len(options) < 2:
                raise DataError(f"{place}: 'options' is no list", "options: [right, wrong, ...]")
            steps = named("numops").get("numops", "0")
            ends = [text(option, place, "options") for option in options]
            return _read_continuations(place, ends, {"UID": f"{stem}_{steps}_ops"}, before, stem)
        case [good, bad] if columns[0] == "good":
            groups = {"UID": named("phenomenon").get("phenomenon", stem)}
            before = text(row["context"], place, "context") if row["context"] else ""
            ends = [" " * bool(before) + end for end in (good, bad)]
            return _read_continuations(place, ends, groups, before)
        case [good, bad]:
            groups = {"UID": stem} | named(*LAYOUTS[*columns,])
            return MinimalPair(place, (good, bad), (0, 0), groups)
    raise AssertionError("a layout without pairs")


def _read_continuations(
    place: str, ends: Sequence[str], groups: Mapping[str, str], before: str, family: str = ""
) -> MinimalPair:
    """Sentences with a common beginning, which is not scored."""
    sentences = tuple(before + end for end in ends)
    return MinimalPair(place, sentences, (len(before),) * len(ends), groups, family)
