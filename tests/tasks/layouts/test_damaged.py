"""Mistakes in a file of examples are reported with their place and what was expected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.ir.learning.custom_task import Choose, Classify, Many, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging
from bertc.tasks.examples import task_sets
from bertc.tasks.layouts.parts import dev_parts, part_examples, read_examples, training_examples
from bertc.tasks.layouts.table import DataPart

RTE = "index\tsentence1\tsentence2\tlabel\n"
STSB = "sentence1\tsentence2\tscore\n"
UNIVERSAL = "1\tHens\then\tNOUN\tNNS\t_\t0\troot\t_\t_\n"


def glue(name: str) -> Callable[[Path], Any]:
    return lambda path: Glue(task=name, data=str(path.parent))  # type: ignore[arg-type]


def own(kind: type, **more: Any) -> Callable[[Path], Any]:
    return lambda path: kind(train=str(path), **more)


def squad(path: Path) -> Any:
    return Squad(data=str(path))


def race(path: Path) -> Any:
    return Race(data=str(path.parent.parent))


def tagging(column: str = "ner", labels: tuple[str, ...] = ()) -> Callable[[Path], Any]:
    return lambda path: Tagging(data=str(path.parent), column=column, labels=labels)  # type: ignore[arg-type]


def passages(context: Any = "A hen clucks.", **more: Any) -> str:
    asked = {"id": "q", "question": "Who?", "answers": [{"text": "hen", "answer_start": 2}]}
    asked = {key: value for key, value in (asked | more).items() if value is not None}
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [asked]}]}]})


def answer(text: Any, start: Any) -> str:
    return passages(answers=[{"text": text, "answer_start": start}])


def passage(**more: Any) -> str:
    whole = {"article": "A hen.", "questions": ["Who?"], "options": [list("abcd")]}
    return json.dumps({**whole, "answers": ["A"], **more})


def row(**cells: Any) -> str:
    return json.dumps(cells) + "\n"


READ = {"context": "A hen clucks.", "question": "Who?", "answer": "hen", "start": 2}

# The task of a training file, its name and content; the place and the rest of the message.
DAMAGED: dict[str, tuple[Callable[[Path], Any], str, str, str, str]] = {
    "glue: empty": (glue("rte"), "train.tsv", "", "train.tsv:1", "empty"),
    "glue: columns of other names": (
        glue("rte"), "train.tsv", "said\tmeant\na\tb\n", "train.tsv:1",
        "or a first line names sentence1, sentence2, label",
    ),
    "glue: only a header": (glue("rte"), "train.tsv", RTE, "train.tsv:1", "no examples"),
    "glue: no label column": (
        glue("rte"), "train.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", "train.tsv:1",
        "no column 'label'; there are index, sentence1, sentence2",
    ),
    "glue: misspelled column": (
        glue("rte"), "train.tsv", "index\tsentense1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
        "train.tsv:1", "the nearest: sentense1",
    ),
    "glue: unknown label": (
        glue("rte"), "train.tsv", RTE + "0\ta\tb\tentailment\n1\ta\tb\tentailmen\n", "train.tsv:3",
        "unknown label 'entailmen', one of 'entailment', 'not_entailment' expected",
    ),
    "glue: no names and too few columns": (
        glue("cola"), "train.tsv", "gj04\t1\tHens.\n", "train.tsv:1", "source, label, mark, sente",
    ),
    "stsb: no score": (glue("stsb"), "train.tsv", STSB + "a\tb\t\n", "train.tsv:2", "0 to 5"),
    "stsb: too high": (
        glue("stsb"), "train.tsv", STSB + "a\tb\t5.1\n", "train.tsv:2", "5.1, a number from 0 to 5",
    ),
    "squad: empty": (squad, "a.json", " \n", "a.json:1", "empty"),
    "squad: something after the end": (
        squad, "a.json", passages() + "\n{}", "a.json:2:1", "extra data",
    ),
    "squad: other JSON": (squad, "a.json", '{"date": []}', "a.json", "the nearest is 'date'"),
    "squad: passage that is no text": (
        squad, "a.json", passages(context=3), "data[0].paragraphs[0]", "text expected",
    ),
    "squad: no identifier": (
        squad, "a.json", passages(id=None), "data[0].paragraphs[0].qas[0]", "no 'id'",
    ),
    "squad: elsewhere": (
        squad, "a.json", answer("hen", 3), "qas[0].answers[0]", "it is at 2",
    ),
    "squad: other words": (
        squad, "a.json", answer("duck", 2), "qas[0].answers[0]", "it is nowhere",
    ),
    "squad: empty answer": (squad, "a.json", answer("", 2), "qas[0].answers[0]", "empty answer"),
    "squad: no answers": (squad, "a.json", passages(answers=[]), "qas[0]", "no answers"),
    "squad: unanswerable in 1.1": (
        squad, "a.json", passages(answers=[], is_impossible=True), "qas[0]", "version=2",
    ),
    "race: answers that are missing": (
        race, "train/1.txt", passage(answers=[]), "1.txt", "0 answers for 1 questions",
    ),
    "race: unknown letter": (
        race, "train/1.txt", passage(answers=["E"]), "1.txt", "one of A, B, C, D expected",
    ),
    "race: three choices": (
        race, "train/1.txt", passage(options=[list("abc")]), "1.txt", "4 expected",
    ),
    "tags: none": (tagging(), "train.txt", "EU B-X\nrejects\n", "train.txt:2", "before have 2"),
    "tags: one column": (tagging(), "train.txt", "EU\n", "train.txt:1", "needs at least 2"),
    "tags: no such column": (
        tagging("chunk"), "train.txt", "EU B-X\n", "train.txt:1", "'chunk' needs at least 3",
    ),
    "tags: CoNLL-U as names": (tagging(), "train.txt", UNIVERSAL, "train.txt:1", "upos, xpos"),
    "tags: columns as CoNLL-U": (
        tagging("upos"), "train.txt", "EU NNP B-X\n", "train.txt:1", "CoNLL-U has 10",
    ),
    "tags: no empty line": (
        tagging("upos"), "train.conllu", UNIVERSAL * 2, "train.conllu:2", "word 2 expected",
    ),
    "tags: unknown": (
        tagging(labels=("O", "B-X")), "train.txt", "a O\n\na B-Y\n", "train.txt:3",
        "unknown tag 'B-Y', one of 'O', 'B-X' expected",
    ),
    "several: unknown": (
        own(Classify, labels=Many(names=("a", "b"))), "a.csv", "text,label\nx,\"a, c\"\n",
        "a.csv:2", "unknown label 'c'",
    ),
    "several: no list": (
        own(Classify, labels=Many()), "a.csv", "text,label\nx,[1\n", "a.csv:2", "a JSON list",
    ),
    "several: null": (
        own(Classify, labels=Many()), "a.jsonl", row(text="x", label=None), "a.jsonl:1",
        "an empty list for none",
    ),
    "several: no flag": (
        own(Classify, label=("a", "b")), "a.csv", "text,a,b\nx,1,2\n", "a.csv:2",
        "'b' is '2', 0 or 1 expected",
    ),
    "several: no number": (
        own(Regress, label=("a", "b")), "a.csv", "text,a,b\nx,1,y\n", "a.csv:2", "'b' is 'y'",
    ),
    "own: other column": (
        own(Classify), "a.csv", "Text,label\na,b\n", "a.csv:1",
        "no column 'text'; there are Text, label",
    ),
    "own: commas": (
        own(Classify), "a.tsv", "review,mood\nA hen,yes\n", "a.tsv:1",
        "commas separate its cells, not tabs; a copy or a link that ends in .csv",
    ),
    "own: tabs": (
        own(Classify, text="0", label="1"), "a.csv", "A hen sleeps.\tyes\n", "a.csv:1",
        "tabs separate its cells, not commas; a copy or a link that ends in .tsv",
    ),
    "own: semicolons": (
        own(Classify), "a.csv", "text;label\nA hen;yes\n", "a.csv:1", "semicolons separate",
    ),
    "own: a text with commas": (
        own(Classify), "a.tsv", "A hen, sadly, does not fly\n", "a.tsv:1", "no column 'text', 'la",
    ),
    "own: swapped columns": (
        own(Classify, labels=("A hen sleeps. " * 3, "No.")), "a.csv", "text,label\nA hen,yes\n",
        "a.csv:2", "if the columns are swapped: text=label, label=text",
    ),
    "own: list for a label": (
        own(Classify), "a.jsonl", row(text="a", label=[1]), "a.jsonl:1",
        "a list, a label expected; one in each row; classify(..., labels=many) reads any number",
    ),
    "own: list in text": (
        own(Classify, labels=("yes", "no")), "a.csv", "text,label\na,[]\n", "a.csv:2",
        "unknown label '[]', one of 'yes', 'no' expected; one in each row; classify(",
    ),
    "own: no label": (
        own(Classify), "a.csv", "text,label\na,\n", "a.csv:2",
        "no label; one in each row; classify(..., labels=many)",
    ),
    "own: no label of two": (
        own(Classify, labels=("yes", "no")), "a.csv", "text,label\na, \n", "a.csv:2",
        "no label; one of 'yes', 'no'; one in each row",
    ),
    "own: number for a text": (
        own(Classify), "a.jsonl", row(text=3, label=1), "a.jsonl:1", "3, text expected",
    ),
    "own: unknown format": (own(Classify), "a.xlsx", "x", "a.xlsx", ".tsv, .csv, .jsonl, .parquet"),
    "own: line breaks in quotes": (
        own(Classify), "a.csv", 'text,label\n"a\nb",c\nd\n', "a.csv:4", "1 columns, line 1 has 2",
    ),
    "own: label that is not listed": (
        own(Classify, labels=("yes", "no")), "a.csv", "text,label\na,NEUTRAL\n", "a.csv:2",
        "correct it, or name every label in labels=[...]: unnamed they are those of the training",
    ),
    "own: score for a label": (
        own(Classify, labels=("1", "3.35")), "a.csv", "text,label\na,3.4\n", "a.csv:2",
        "regress(...) learns numbers",
    ),
    "regress: words": (
        own(Regress), "a.csv", "text,label\na,high\n", "a.csv:2",
        "'high', a number expected; classify learns labels, regress numbers",
    ),
    "regress: swapped columns": (
        own(Regress), "a.csv", f"text,label\n3.5,{'A hen sleeps. ' * 5}\n", "a.csv:2",
        "if the columns are swapped: text=label, label=text",
    ),
    "regress: true": (own(Regress), "a.jsonl", row(text="a", label=True), "a.jsonl:1", "a number"),
    "choose: past the last": (
        own(Choose), "a.jsonl", row(question="?", choices=["a", "b"], label=2), "a.jsonl:1",
        "from 0 to 1, or a letter from A to B",
    ),
    "choose: no answer": (
        own(Choose), "a.jsonl", row(question="?", choices=["a", "b"], label=None), "a.jsonl:1",
        "no label",
    ),
    "choose: too many": (
        own(Choose), "a.jsonl", row(question="?", choices=list("abcde"), label=1), "a.jsonl:1",
        "most=5",
    ),
    "choose: text for a list": (
        own(Choose), "a.jsonl", row(question="?", choices="ab", label=0), "a.jsonl:1", "a list of",
    ),
    "tag: more words than tags": (
        own(Tag), "a.jsonl", row(words=["a", "b"], tags=["O"]), "a.jsonl:1", "2 words and 1 tag",
    ),
    "tag: no words": (own(Tag), "a.jsonl", row(words=[], tags=[]), "a.jsonl:1", "no words"),
    "read: elsewhere": (own(Read), "a.jsonl", row(**READ | {"start": 4}), "a.jsonl:1", "at 2"),
    "read: half a place": (own(Read), "a.jsonl", row(**READ | {"start": 2.5}), "a.jsonl:1", "2.5"),
    "read: no answer": (
        own(Read), "a.jsonl", row(**READ | {"answer": ""}), "a.jsonl:1", "unanswerable=true",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_reported_with_its_place(tmp_path: Path, case: str) -> None:
    make, name, content, place, expected = DAMAGED[case]
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        training_examples(make(path))
    error = caught.value
    assert error.exit_code == 65
    assert name in error.message
    assert place in error.message
    assert expected in f"{error.message}; {error.help}"


def test_labels_that_training_lacks(tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    path.write_text("text,label\nx,a\ny,c\n")
    task = Classify(train=str(path), dev=str(path), test=str(path), labels=("a", "b"))
    for read in (
        lambda: part_examples(task, "dev"),
        lambda: part_examples(task, "test"),
        lambda: read_examples(task, DataPart(path, labelled=False)),
    ):
        with pytest.raises(DataError, match=r"dev.csv:3: unknown label 'c', one of 'a', 'b'"):
            read()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("x,a\ny,a\n", "only the label 'a' in all 2 examples; two or more labels"),
        ("x,a\ny,b\nz,c\n", "3 labels in 3 examples, at most 2 are supported; name another column"),
        ("x,a\nx,b\nx,c\n", "are supported; if the columns are swapped: text=label, label=text"),
    ],
)
def test_labels_that_are_none(tmp_path, rows, message, monkeypatch):
    monkeypatch.setattr(task_sets, "MAX_LABELS", 2)
    path = tmp_path / "a.csv"
    path.write_text(f"text,label\n{rows}")
    task = Classify(train=str(path))
    with pytest.raises(DataError, match=r"a.csv: ") as caught:
        task_sets.found_labels(task, training_examples(task))
    assert message in f"{caught.value.message}; {caught.value.help}"


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text(RTE + "0\ta\tb\tentailment\n")
    gone = tmp_path / "gone"
    for act, fault in (
        (lambda: training_examples(Classify(train=f"{gone}.csv")), "gone.csv"),
        (lambda: training_examples(Classify(train=f"{gone}.txt")), "gone.txt"),
        (lambda: dev_parts(Glue(task="rte", data=str(gone))), "gone"),
        (lambda: training_examples(Glue(task="rte", data=str(tmp_path))), "'train'"),
        (lambda: training_examples(Squad(data=str(gone))), "gone"),
        (lambda: dev_parts(Squad(data=str(tmp_path), dev=str(gone))), "gone"),
        (lambda: read_examples(Race(data="x"), DataPart(gone)), "gone"),
        (lambda: part_examples(Regress(train="x"), "dev"), "'dev'"),
    ):
        with pytest.raises(MissingInputError) as caught:
            act()
        assert fault in caught.value.message
        assert caught.value.exit_code == 66


def test_files_and_folders_in_each_others_place_or_too_many(tmp_path: Path) -> None:
    file, folder = tmp_path / "train.tsv", tmp_path / "folder.csv"
    file.write_text(RTE + "0\ta\tb\tentailment\n")
    folder.mkdir()
    for language in ("de", "en"):
        (folder / f"{language}.train.txt").write_text("a O\n")
    for act, fault in (
        (lambda: training_examples(Classify(train=str(folder))), "is a folder, not a file"),
        (lambda: training_examples(Glue(task="rte", data=str(file))), "is a file, a folder expect"),
        (lambda: read_examples(Squad(data="x"), DataPart(folder)), "is a folder, not a file"),
        (lambda: read_examples(Tagging(data="x"), DataPart(folder)), "is a folder, not a file"),
        (lambda: training_examples(Tagging(data=str(folder))), "de.train.txt, en.train.txt could"),
    ):
        with pytest.raises(DataError, match=fault):
            act()
