"""Mistakes in a file of examples and files of another task: what was expected is said."""

import json
from pathlib import Path

import pytest

from bertc.api import check
from bertc.base.diagnostics import DataError, MissingInputError, SpecError
from bertc.ir.learning.custom_task import Choose, Classify, Many, Read, Regress, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging
from bertc.tasks.examples import task_sets
from bertc.tasks.layouts.parts import dev_parts, part_examples, read_examples
from bertc.tasks.layouts.survey import survey
from bertc.tasks.layouts.table import DataPart, files_of, is_tagged_file, table
from bertc.text.sources.tables import ColumnSelection
from bertc.use.predict import columns_of

RTE = "index\tsentence1\tsentence2\tlabel\n"
STSB = "sentence1\tsentence2\tscore\n"
UNIVERSAL = "1\tHens\then\tNOUN\tNNS\t_\t0\troot\t_\t_\n"


def glue(name):
    return lambda path: Glue(task=name, data=str(path.parent))  # type: ignore[arg-type]


def own(kind, **more):
    return lambda path: kind(train=str(path), **more)


def squad(path):
    return Squad(data=str(path))


def race(path):
    return Race(data=str(path.parent.parent))


def tagging(column="ner", labels=()):
    return lambda path: Tagging(data=str(path.parent), column=column, labels=labels)  # type: ignore[arg-type]


def passages(context="A hen clucks.", **more):
    asked = {"id": "q", "question": "Who?", "answers": [{"text": "hen", "answer_start": 2}]}
    asked = {key: value for key, value in (asked | more).items() if value is not None}
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [asked]}]}]})


def answer(text, start):
    return passages(answers=[{"text": text, "answer_start": start}])


def passage(**more):
    whole = {"article": "A hen.", "questions": ["Who?"], "options": [list("abcd")]}
    return json.dumps({**whole, "answers": ["A"], **more})


def row(**cells):
    return json.dumps(cells) + "\n"


READ = {"context": "A hen clucks.", "question": "Who?", "answer": "hen", "start": 2}

# The task of a training file, its name, and contents with the line or place and more of a message.
DAMAGED = [
    (glue("rte"), "train.tsv", {
        "glue: empty": ("", 1, "empty"),
        "glue: columns of other names": ("said\tmeant\na\tb\n", 1,
            "or a first line names sentence1, sentence2, label"),
        "glue: only a header": (RTE, 1, "no examples"),
        "glue: no label column": ("index\tsentence1\tsentence2\n0\ta\tb\n", 1,
            "no column 'label'; there are index, sentence1, sentence2"),
        "glue: misspelled column": ("index\tsentense1\tsentence2\tlabel\n0\ta\tb\tentailment\n", 1,
            "the nearest: sentense1"),
        "glue: unknown label": (RTE + "0\ta\tb\tentailment\n1\ta\tb\tentailmen\n", 3,
            "unknown label 'entailmen', one of 'entailment', 'not_entailment' expected")}),
    (glue("cola"), "train.tsv", {"glue: no names and too few columns": ("gj04\t1\tHens.\n", 1,
        "source, label, mark, sente")}),
    (glue("stsb"), "train.tsv", {
        "stsb: no score": (STSB + "a\tb\t\n", 2, "0 to 5"),
        "stsb: too high": (STSB + "a\tb\t5.1\n", 2, "5.1, a number from 0 to 5")}),
    (squad, "a.json", {
        "squad: empty": (" \n", 1, "empty"),
        "squad: something after the end": (passages() + "\n{}", "a.json:2:1", "extra data"),
        "squad: other JSON": ('{"date": []}', "a.json", "the nearest is 'date'"),
        "squad: passage that is no text": (passages(context=3), "data[0].paragraphs[0]",
            "text expected"),
        "squad: no identifier": (passages(id=None), "data[0].paragraphs[0].qas[0]", "no 'id'"),
        "squad: elsewhere": (answer("hen", 3), "qas[0].answers[0]", "it is at 2"),
        "squad: other words": (answer("duck", 2), "qas[0].answers[0]", "it is nowhere"),
        "squad: empty answer": (answer("", 2), "qas[0].answers[0]", "empty answer"),
        "squad: no answers": (passages(answers=[]), "qas[0]", "no answers"),
        "squad: unanswerable in 1.1": (passages(answers=[], is_impossible=True), "qas[0]",
            "version=2")}),
    (race, "train/1.txt", {
        "race: answers that are missing": (passage(answers=[]), "1.txt",
            "0 answers for 1 questions"),
        "race: unknown letter": (passage(answers=["E"]), "1.txt", "one of A, B, C, D expected"),
        "race: three choices": (passage(options=[list("abc")]), "1.txt", "4 expected")}),
    (tagging(), "train.txt", {
        "tags: none": ("EU B-X\nrejects\n", 2, "2 expected"),
        "tags: one column": ("EU\n", 1, "needs at least 2"),
        "tags: CoNLL-U as names": (UNIVERSAL, 1, "upos, xpos")}),
    (tagging("chunk"), "train.txt", {"tags: no such column": ("EU B-X\n", 1,
        "'chunk' needs at least 3")}),
    (tagging("upos"), "train.txt", {"tags: columns as CoNLL-U": ("EU NNP B-X\n", 1,
        "10 expected")}),
    (tagging("upos"), "train.conllu", {"tags: no empty line": (UNIVERSAL * 2, 2,
        "word 2 expected")}),
    (tagging(labels=("O", "B-X")), "train.txt", {"tags: unknown": ("a O\n\na B-Y\n", 3,
        "unknown tag 'B-Y', one of 'O', 'B-X' expected")}),
    (own(Classify, labels=Many(names=("a", "b"))), "a.csv", {
        "several: unknown": ("text,label\nx,\"a, c\"\n", 2, "unknown label 'c'")}),
    (own(Classify, labels=Many()), "a.csv", {"several: no list": ("text,label\nx,[1\n", 2,
        "a JSON list")}),
    (own(Classify, labels=Many()), "a.jsonl", {"several: null": (row(text="x", label=None), 1,
        "an empty list for none")}),
    (own(Classify, label=("a", "b")), "a.csv", {"several: no flag": ("text,a,b\nx,1,2\n", 2,
        "'b' is '2', 0 or 1 expected")}),
    (own(Regress, label=("a", "b")), "a.csv", {"several: no number": ("text,a,b\nx,1,y\n", 2,
        "'b' is 'y'")}),
    (own(Classify), "a.csv", {
        "own: other column": ("Text,label\na,b\n", 1, "no column 'text'; there are Text, label"),
        "own: semicolons": ("text;label\nA hen;yes\n", 1, "semicolons separate"),
        "own: no label": ("text,label\na,\n", 2,
            "no label; one in each row; classify(..., labels=many)"),
        "own: line breaks in quotes": ('text,label\n"a\nb",c\nd\n', 4, "1 columns, line 1 has 2")}),
    (own(Classify), "a.tsv", {
        "own: commas": ("review,mood\nA hen,yes\n", 1,
            "commas separate its cells, not tabs; a copy or a link that ends in .csv"),
        "own: a text with commas": ("A hen, sadly, does not fly\n", 1, "no column 'text', 'la")}),
    (own(Classify, text="0", label="1"), "a.csv", {"own: tabs": ("A hen sleeps.\tyes\n", 1,
        "tabs separate its cells, not commas; a copy or a link that ends in .tsv")}),
    (own(Classify, labels=("A hen sleeps. " * 3, "No.")), "a.csv", {
        "own: swapped columns": ("text,label\nA hen,yes\n", 2,
            "if the columns are swapped: text=label, label=text")}),
    (own(Classify), "a.jsonl", {
        "own: list for a label": (row(text="a", label=[1]), 1,
            "a list, a label expected; one in each row; classify(..., labels=many) reads any"),
        "own: number for a text": (row(text=3, label=1), 1, "3, text expected")}),
    (own(Classify, labels=("yes", "no")), "a.csv", {
        "own: list in text": ("text,label\na,[]\n", 2,
            "unknown label '[]', one of 'yes', 'no' expected; one in each row; classify("),
        "own: no label of two": ("text,label\na, \n", 2,
            "no label; one of 'yes', 'no'; one in each row"),
        "own: label that is not listed": ("text,label\na,NEUTRAL\n", 2,
            "correct it, or name every label in labels=[...]: unnamed they are those of "
            "the training")}),
    (own(Classify), "a.xlsx", {"own: unknown format": ("x", "a.xlsx",
        ".tsv, .csv, .jsonl, .parquet")}),
    (own(Classify, labels=("1", "3.35")), "a.csv", {
        "own: score for a label": ("text,label\na,3.4\n", 2, "regress(...) learns numbers")}),
    (own(Regress), "a.csv", {
        "regress: words": ("text,label\na,high\n", 2,
            "'high', a number expected; classify learns labels, regress numbers"),
        "regress: a decimal comma": ('text,label\na,"1,25"\n', 2, "1.25, with a decimal point"),
        "regress: digits in groups": ("text,label\na,1_000\n", 2, "a number expected"),
        "regress: swapped columns": (f"text,label\n3.5,{'A hen sleeps. ' * 5}\n", 2,
            "if the columns are swapped: text=label, label=text")}),
    (own(Regress), "a.jsonl", {"regress: true": (row(text="a", label=True), 1, "a number")}),
    (own(Choose), "a.jsonl", {
        "choose: past the last": (row(question="?", choices=["a", "b"], label=2), 1,
            "from 0 to 1, or a letter from A to B"),
        "choose: no answer": (row(question="?", choices=["a", "b"], label=None), 1, "no label"),
        "choose: too many": (row(question="?", choices=list("abcde"), label=1), 1, "most=5"),
        "choose: text for a list": (row(question="?", choices="ab", label=0), 1, "a list of")}),
    (own(Tag), "a.jsonl", {
        "tag: more words than tags": (row(words=["a", "b"], tags=["O"]), 1, "2 words and 1 tag"),
        "tag: no words": (row(words=[], tags=[]), 1, "no words")}),
    (own(Read), "a.jsonl", {
        "read: elsewhere": (row(**READ | {"start": 4}), 1, "at 2"),
        "read: half a place": (row(**READ | {"start": 2.5}), 1, "2.5"),
        "read: no answer": (row(**READ | {"answer": ""}), 1, "unanswerable=true")}),
]  # fmt: skip
CASES = {case: (*file, *said) for *file, cases in DAMAGED for case, said in cases.items()}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_reported_with_its_place(tmp_path, case):
    make, name, content, place, expected = CASES[case]
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        part_examples(make(path))
    error = caught.value
    assert error.exit_code == 65
    assert name in error.message
    assert (f"{path.name}:{place}" if isinstance(place, int) else place) in error.message
    assert expected in f"{error.message}; {error.help}"


def test_labels_that_training_lacks(tmp_path):
    path = tmp_path / "dev.csv"
    path.write_text("text,label\nx,\u00e4\ny,c\n", encoding="utf-8")
    task = Classify(train=str(path), dev=str(path), test=str(path), labels=("a\u0308", "b"))
    unlabelled = read_examples, DataPart(path, labelled=False)
    for read, part in ((part_examples, "dev"), (part_examples, "test"), unlabelled):
        refused = pytest.raises(DataError, read, task, part)
        refused.match(r"dev.csv:3: unknown label 'c', one of 'a\u0308', 'b'")


@pytest.mark.parametrize(("rows", "message"), [
    ("x,a\ny,a\n", "only the label 'a' in all 2 examples; two or more labels"),
    ("x,a\ny,b\nz,c\n", "3 labels in 3 examples, at most 2 are supported; name another column"),
    ("x,a\nx,b\nx,c\n", "are supported; if the columns are swapped: text=label, label=text"),
])  # fmt: skip
def test_labels_that_are_none(tmp_path, rows, message, monkeypatch):
    monkeypatch.setattr(task_sets, "MAX_LABELS", 2)
    path = tmp_path / "a.csv"
    path.write_text(f"text,label\n{rows}")
    task = Classify(train=str(path))
    with pytest.raises(DataError, match=r"a.csv: ") as caught:
        task_sets.found_labels(task, part_examples(task))
    assert message in f"{caught.value.message}; {caught.value.help}"


def test_what_is_not_there(tmp_path):
    (tmp_path / "dev.tsv").write_text(RTE + "0\ta\tb\tentailment\n")
    gone = tmp_path / "gone"
    for fault, act, task, *part in (
        ("gone.csv", part_examples, Classify(train=f"{gone}.csv")),
        ("gone.txt", part_examples, Classify(train=f"{gone}.txt")),
        ("gone", dev_parts, Glue(task="rte", data=str(gone))),
        ("'train'", part_examples, Glue(task="rte", data=str(tmp_path))),
        ("gone", part_examples, Squad(data=str(gone))),
        ("gone", dev_parts, Squad(data=str(tmp_path), dev=str(gone))),
        ("gone", read_examples, Race(data="x"), DataPart(gone)),
        ("'dev'", part_examples, Regress(train="x"), "dev"),
    ):
        caught = pytest.raises(MissingInputError, act, task, *part)
        assert (fault in caught.value.message, caught.value.exit_code) == (True, 66)


def test_files_and_folders_in_each_others_place_or_too_many(tmp_path):
    file, folder = tmp_path / "train.tsv", tmp_path / "folder.csv"
    file.write_text(RTE + "0\ta\tb\tentailment\n")
    folder.mkdir()
    for language in ("de", "en"):
        (folder / f"{language}.train.txt").write_text("a O\n")
    for fault, act, task, *part in (
        ("is a folder, not a file", part_examples, Classify(train=str(folder))),
        ("is a file, a folder expect", part_examples, Glue(task="rte", data=str(file))),
        ("is a folder, not a file", read_examples, Squad(data="x"), DataPart(folder)),
        ("is a folder, not a file", read_examples, Tagging(data="x"), DataPart(folder)),
        ("de.train.txt, en.train.txt could", part_examples, Tagging(data=str(folder))),
    ):
        pytest.raises(DataError, act, task, *part).match(fault)


def test_a_table_of_tabs_may_have_any_ending(tmp_path):
    path = tmp_path / "SICK_train.txt"
    path.write_text("pair_ID\ttext\tlabel\n1\tA man walks.\tyes\n\n2\tA hen.\tno\n")
    task = Classify(train=str(path), labels=("yes", "no"))
    examples = part_examples(task)
    assert [(e.key, e.texts) for e in examples] == [("0", ("A man walks.",)), ("1", ("A hen.",))]
    rows = [[*row.values()] for row in columns_of(task, path)]
    assert rows == [["1", "A man walks.", "yes"], ["2", "A hen.", "no"]]
    for content in ("A man walks.\nA hen.\n", "a\tb\nc\n", ""):
        path.write_text(content)
        with pytest.raises(DataError, match="unknown format '.txt' of a table, and no tabs part"):
            part_examples(task)


@pytest.mark.parametrize(("name", "content", "tags", "right"), [
    ("x.conll", "EU NNP B-ORG\nrejects VBZ O\n\nit PRP O\n", "tags", ("B-ORG", "O")),
    ("x.conll", "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n", "pos", ("NNP", "VBZ")),
    ("x.txt", "EU\tI-ORG\nrejects\tO\n\n" * 2, "tags", ("B-ORG", "O")),
    ("x.conllu", "1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n\n", "tags", ("PRON",)),
])  # fmt: skip
def test_one_file_of_words_and_tags_is_read_alone(tmp_path, name, content, tags, right):
    path = tmp_path / name
    path.write_text(content)
    task = Tag(train=str(path), tags=tags)
    first, *_ = part_examples(task)
    assert first.tags == right
    assert columns_of(task, path) is None


CONLL_U = "# text = They buy\n1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n"
TAGGED = {
    "tabs": "Los\tB-LOC\nAngeles\tI-LOC\n\nis\tO\nbig\tO\n",
    "spaces": "U.N. NNP B-NP B-ORG\nofficial NN I-NP O\n\nEkeus NNP I-NP B-PER\nheads VBZ B-VP O\n",
    "parts of speech": "the\tDT\nhen\tNN\n\na\tDT\nduck\tNN\n",
    "CoNLL-U": f"{CONLL_U}\n" * 4,
    "a long one": "word\tO\n\n" * 20_000,
}
PLAIN = {
    "text": "The hen walks.\nThe duck swims.\n\nThe hen sleeps.\nThe duck too.\n",
    "two words a line": "good night\ngood night\n\nsleep well\nsleep well\n",
    "a table": "id\ttext\n1\tA man walks\n2\tA man walks\n3\tA man walks\n\n",
    "translations": "hen\tHuhn\nduck\tEnte\n\npond\tTeich\nbird\tVogel\n",
    "nothing": "",
    "no sentence ends": "a\tO\n" * 40,
}


@pytest.mark.parametrize("content", TAGGED.values(), ids=TAGGED)
def test_words_with_tags_in_a_text_file_name_their_task(content, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(content)
    error = pytest.raises(DataError, next, table(path, ColumnSelection(("text",))))
    assert f'task=tag("{path}")' in error.value.help
    error = pytest.raises(DataError, files_of, str(path))
    assert error.value.help == f'name its folder: "{tmp_path}"'


@pytest.mark.parametrize(("name", "content", "help"), [
    ("a.json", '[{"text": "hen"}]', "jq -c '.[]' a.json > a.jsonl"),
    ("a.json", '{"text": "hen"}\n{"text": "duck"}\n', "an object a line: name it a.jsonl"),
    ("a.tsv.bz2", "", "bzip2 -dc a.tsv.bz2 | gzip > a.tsv.gz"),
    ("a.zip", "", "unzip a.zip -d a,"),
    ("a.jsonl", '{"text": {"body": "hen"}, "label": 1}', '"text.body" names a member of it'),
])  # fmt: skip
def test_rows_in_other_files_have_a_way_out(name, content, help, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    looks = [(part_examples, Classify(train=name)), (survey, name)]
    for look in looks[: 1 + (name != "a.jsonl")]:
        assert help in pytest.raises(DataError, *look).value.help


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_text_is_not_taken_for_words_with_tags(content, tmp_path):
    (tmp_path / "train.txt").write_text(content)
    assert not is_tagged_file(tmp_path / "train.txt")


def test_mistakes_in_files_of_tasks_come_at_once_at_their_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("text\tlabel\nA hen.\tyes\nA duck.\tno\n")
    (tmp_path / "b.tsv").write_text("text\tlabel\nA hen.\tmaybe\n")
    reviews = [f"{'ny'[n % 2]}\tThe hen {n} {'walks over the wet yard ' * 4}" for n in range(4)]
    (tmp_path / "swapped.tsv").write_text("\n".join(["text\tlabel", *reviews]))
    good = 'classify("a.tsv", "b.tsv", name=one)'
    maybe, gone = ("unknown label 'maybe'", "b.tsv"), ("gone.tsv is not there", "gone.tsv")
    cases = {
        f'{good} + classify("a.tsv", "gone.tsv", text=said, label=mark)':
            [maybe, ("no column 'said', 'mark'", "a.tsv"), gone],
        f'glue(rte, "x") + {good}': [("no folder x", "x"), maybe],
        'classify("a.tsv", "gone.tsv", "lost.tsv")': [gone, ("no test file lost.tsv", "lost.tsv")],
        'embed("b.tsv", "b.tsv")': [("b.tsv has single texts", "b.tsv")],
        'classify("swapped.tsv", "a.tsv")': [("unknown label 'yes'", "a.tsv")],
    }  # fmt: skip
    for task, mistakes in cases.items():
        error = pytest.raises(SpecError, check, f"layers=1 hidden=8 heads=2 task={task}")
        assert len(error.value.diagnostics) == len(mistakes)
        for found, (message, place) in zip(error.value.diagnostics, mistakes, strict=True):
            assert found.code == "E309"
            assert message in found.message
            assert ("; by text=COLUMN, label=COLUMN of" in found.help) == ("no column" in message)
            assert found.span.text == f'"{place}"'
