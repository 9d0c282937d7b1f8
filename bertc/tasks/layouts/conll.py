"""Words and tags in columns: CoNLL-2003 and files like it, and CoNLL-U."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, get_args

from bertc.base.diagnostics import DataError
from bertc.ir.learning import Spans, Tag
from bertc.ir.learning.task import TagColumn, Tagging
from bertc.tasks.layouts.example import TaggedExample
from bertc.tasks.layouts.table import DataPart, DataParts, files_of, only
from bertc.text.sources.cells import known_label
from bertc.text.sources.source import lines, opened_stream

CONLL_2003 = {"pos": 1, "chunk": 2, "ner": -1}
"""Columns of CoNLL-2003, from 0; name tags are in the last one."""
CONLL_U = {"upos": 3, "xpos": 4, "deprel": 7}
"""Columns of CoNLL-U, from 0."""
CONLL_U_COLUMNS = 10
LAYOUT_HELP = (
    "a word a line with its tags behind it, an empty line after each sentence; in a file to "
    "predict perhaps no tags, or a sentence a line"
)
"""Help for files that are not of this layout, such as plain text."""
CONLL_U_HELP = 'ten columns with tabs between; tagging(..., "ner") reads those of CoNLL-2003'
Numbered = list[tuple[int, str]]
"""The lines of a file with their numbers."""
_PARTS = {"train": "train", "dev": "dev|testa", "test": "test|testb"}
_PREFIX = re.compile(r"[a-z]{2,3}(-[a-z]+)*:(?=.)")


class TaggedWord(NamedTuple):
    """A word, its tag, and the number of its line."""

    text: str
    tag: str
    line: int


def tagging_parts(task: Tagging) -> DataParts:
    """The parts of a folder, by the names of its files."""
    files = files_of(task.data)
    patterns = {part: rf"(?<![a-z])({names})(?![a-z])" for part, names in _PARTS.items()}
    paths = {part: only(files, pattern, task.data) for part, pattern in patterns.items()}
    return {part: DataPart(path) for part, path in paths.items() if path}


def in_columns(task: Tag | Spans, path: Path) -> Tagging:
    """The task that reads a file of words and tags in columns: by ``tags``, or its usual column."""
    known: tuple[TagColumn, ...] = get_args(TagColumn)
    column = next((name for name in known if name == task.tags), None)
    if column is None:
        with opened_stream(path) as file:
            full = (line for _, line in lines(file) if line.strip() and line[0] != "#")
            column = "upos" if next(full, "").count("\t") + 1 == CONLL_U_COLUMNS else "ner"
    labels = task.labels if isinstance(task, Tag) else ()
    return Tagging(data=str(path), column=column, labels=labels)


def read_tagging(task: Tagging, part: DataPart) -> list[TaggedExample]:
    """Read the sentences; unless labelled of a word a line, or of text, a sentence a line."""
    path = part.file
    with opened_stream(path) as file:
        numbered = list(lines(file))
    if not part.labelled and _is_text(task, path, [line for _, line in numbered if line.strip()]):
        texts = (line.split() for _, line in numbered if line.strip())
        return [TaggedExample(str(i), tuple(words), ()) for i, words in enumerate(texts)]
    sentences = [s for s in _sentences(part, numbered, task.column) if s]
    if task.column == "ner":
        sentences = _without_language(sentences)
    examples = []
    for i, sentence in enumerate(sentences):
        tags = tuple(word.tag for word in sentence)
        if task.column in ("ner", "chunk"):
            tags = bio(tags)
        if task.labels and all(tags):
            for word, tag in zip(sentence, tags, strict=True):
                known_label(tag, task.labels, f"{path}:{word.line}", "tag", LAYOUT_HELP)
        words = tuple(word.text for word in sentence)
        examples.append(TaggedExample(str(i), words, tags if all(tags) else ()))
    return examples


def _is_text(task: Tagging, path: Path, full: list[str]) -> bool:
    """True if lines are sentences: few tabs, several words, and known tags behind few of them."""
    skipped = "#" if task.column in CONLL_U else "-DOCSTART-"
    rows = [line for line in full if not line.startswith(skipped)]
    tabs = sum("\t" in line for line in rows)
    if path.suffix in (".csv", ".json", ".jsonl") or not rows or 2 * tabs >= len(rows):
        return False
    if task.column in CONLL_U:
        return True
    fields = [line.split() for line in rows]
    tags = (words[CONLL_2003[task.column]] for words in fields if len(words) > 1)
    tagged = sum(tag in task.labels for tag in tags)
    return bool(task.labels) and max(map(len, fields)) > 1 and 2 * tagged < len(rows)


def bio(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Convert tags of IOB1 to BIO, in which every span begins with ``B-``."""
    converted, before = [], "O"
    for tag in tags:
        converted.append("B-" + tag[2:] if tag.startswith("I-") and before[2:] != tag[2:] else tag)
        before = tag
    return tuple(converted)


def _blocks(numbered: Numbered) -> Iterator[Numbered]:
    groups = groupby(numbered, key=lambda line: bool(line[1].strip()))
    return (list(block) for full, block in groups if full)


def _sentences(part: DataPart, numbered: Numbered, column: str) -> Iterator[list[TaggedWord]]:
    """Sentences of a word a line; in CoNLL-U ranges (1-2) and empty nodes (1.1) are skipped."""
    treebank = column in CONLL_U
    place_of_tag = CONLL_U[column] if treebank else CONLL_2003[column]
    width = CONLL_U_COLUMNS if treebank else 0
    for block in _blocks(numbered):
        sentence = list[TaggedWord]()
        for number, line in block:
            if line.startswith("#" if treebank else "-DOCSTART-"):
                continue
            fields = line.split("\t") if treebank or "\t" in line else line.split()
            place = f"{part.source}:{number}"
            width = width or _width(fields, place, column, part)
            if len(fields) != width:
                message = f"{place}: {len(fields)} columns, {width} expected"
                raise DataError(message, CONLL_U_HELP if treebank else LAYOUT_HELP)
            if treebank and re.fullmatch(r"\d+[-.]\d+", fields[0]):
                continue
            if treebank and fields[0] != str(len(sentence) + 1):
                message = f"{place}: word {fields[0][:60]}, word {len(sentence) + 1} expected"
                raise DataError(message, "an empty line after each sentence, words counted from 1")
            tag = fields[place_of_tag].strip() if width > 1 else ""
            if not fields[treebank].strip() or (part.labelled and not tag):
                raise DataError(f"{place}: an empty column, a word and its {column} tag expected")
            sentence.append(TaggedWord(fields[treebank], tag, number))
        yield sentence


def _width(fields: list[str], place: str, column: str, part: DataPart) -> int:
    needed = max(CONLL_2003[column] + 1, 2)
    if len(fields) == 1 and not part.labelled:
        return 1
    if len(fields) == CONLL_U_COLUMNS and fields[0][0].isdecimal():
        message = f"{place}: columns of CoNLL-U, {column!r} is one of CoNLL-2003"
        raise DataError(message, f"one of {', '.join(CONLL_U)}")
    if len(fields) < needed:
        message = f"{place}: {len(fields)} columns, {column!r} needs at least {needed}"
        raise DataError(message, "a word, its part of speech, its chunk and its name tag")
    return len(fields)


def _without_language(sentences: list[list[TaggedWord]]) -> list[list[TaggedWord]]:
    """Remove WikiANN's prefix ``en:`` if every word has the same one."""
    begun = _PREFIX.match(sentences[0][0].text) if sentences else None
    if not begun or not all(w.text.startswith(begun[0]) for s in sentences for w in s):
        return sentences
    cut = len(begun[0])
    return [[word._replace(text=word.text[cut:]) for word in s] for s in sentences]
