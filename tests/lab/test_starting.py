"""A first spec from a few answers: what is seen of data, what size, and that it is sound."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from bertc.api import check, resolve, train
from bertc.base.diagnostics import DataError, Diagnostics, MissingInputError, UsageError
from bertc.cli import starting as commands
from bertc.lab.fit.candidate import Budget
from bertc.lab.fit.fitting import Machine, budget_named, machine_named
from bertc.lab.starting.columns import roles_of
from bertc.lab.starting.init import NEEDS, Answers, look_at_data, purposes, start
from bertc.lab_api import survey
from bertc.lang.write.format import format_text
from bertc.run.train.phase import evaluations_due
from tests.hub.programs import bert_folder

ROWS = "Review,id,stars\n" + "".join(
    f'"A hen, a duck and the {word} by that pond.",{i},{i % 3}\n'
    for i, word in enumerate(["reed", "frog", "bird", "boat"] * 6)
)
WHO = {"id": "1", "question": "Who?", "is_impossible": True, "answers": []}
WHERE = {"id": "2", "question": "Where?", "answers": [{"text": "the pond", "answer_start": 14}]}
PARAGRAPH = {"context": "The hen is by the pond.", "qas": [WHO, WHERE]}
QUESTIONS = {"data": [{"title": "t", "paragraphs": [PARAGRAPH]}]}
TAGGED = "Anna\tB-PER\nsings\tO\n\nBob\tB-PER\nsings\tO\n" * 8


def test_text_that_is_to_come_is_an_amount_unless_a_file_has_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = start(look_at_data("1.5 gb of German"), Answers())
    assert 'files("text/**/*.txt", language="German")' in spec
    assert "# text/**/*.txt: text, to be put there, about 1.40 GiB." in spec
    assert resolve(spec).vocabulary.size == 32_000
    (tmp_path / "2 GB").write_text("The hen and a duck of the pond.")
    assert look_at_data("2 GB").text_bytes == 31


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with something of every kind."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "text/[a]/farm.txt": "The hen and a duck\nof the pond.\n\n" * 40,
        "text/notes.pdf": "%PDF" * 4000, "train.csv": ROWS, "dev.csv": ROWS,
        "squad/train-v2.0.json": json.dumps(QUESTIONS), "conll/eng.train": TAGGED,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


SMALL = Answers(budget=Budget("params", 1.5e6))
EVERY = [
    (name, purpose)
    for name, serves in (
        ("text", ("pretrain", "embed")), ("train.csv", ("classify", "pretrain", "embed")),
        ("conll", ("tag",)), ("squad", ("squad",)),
    )
    for purpose in serves
]  # fmt: skip


@pytest.mark.parametrize(("name", "purpose"), EVERY)
def test_every_purpose_gives_a_spec_that_check_accepts(data, name, purpose):
    seen = survey(name)
    assert purpose in purposes(seen)
    spec = start(seen, Answers(budget=SMALL.budget, purpose=purpose))
    assert spec == format_text(spec), "it is in canonical form"
    assert re.search(r"\n# [\d.]+[kM] parameters, .* on cpu ", spec)
    remarks = Diagnostics()
    check(spec, diagnostics=remarks)
    allowed = {"R103"} if purpose in ("tag", "squad") else set()
    assert {each.code for each in remarks.remarks} <= allowed
    resolved = resolve(spec)
    assert bool(resolved.stages[-1].tasks) == (purpose != "pretrain")
    assert evaluations_due(resolved, 0) <= 12


ALIKE = [
    ("anchor,positive,negative", "a hen,a duck,a boat",
     'text="anchor", positive="positive", negative="negative"'),
    ("sentence1,sentence2,score", "a hen,a duck,{n}.5",
     'text="sentence1", positive="sentence2", score="score"'),
    ("sentence1,sentence2,label", "a hen,a duck,no", 'text="sentence1"'),
    ("a,b", "a hen {n},a duck by {n} ponds", 'text="a", positive="b"'),
    ("de,en", "Henne{n},hen{n}", 'text="de", positive="en"'),
]  # fmt: skip


@pytest.mark.parametrize(("head", "row", "columns"), ALIKE)
def test_columns_of_texts_alike_are_found(data, head, row, columns):
    rows = "".join(row.format(n=number) + "\n" for number in range(24))
    for name in ("pairs-train.csv", "pairs-dev.csv"):
        (data / name).write_text(f"{head}\n{rows}")
    spec = start(survey("pairs-train.csv"), Answers(budget=SMALL.budget, purpose="embed"))
    task = " ".join(spec.partition("embed(")[2].split())
    assert columns in task
    assert ("pairs-dev.csv" in task) == ("positive" in task), "texts alone have no score there"
    check(spec)


@pytest.mark.parametrize(("train", "dev", "task"), [
    ("ner/train.conll", "ner/dev.conll", "tag"), ("ner/eng.train", "ner/eng.testa", "tag"),
    ("ner/train.conll", "ner/valid.conll", "tag"),
    ("pairs/train.tsv.gz", "pairs/dev.tsv", "classify"),
    ("pairs/my.Train.csv", "pairs/my.valid.csv.gz", "classify"),
    ("pairs/train.csv", "pairs/dev.tsv", "classify"),
])  # fmt: skip
def test_the_file_next_to_a_training_file_judges(data, train, dev, task):
    """Whatever else is there, and whichever of them is packed."""
    for name in (train, dev, str(Path(train).with_name("train-extra.json"))):
        ending = "," if ".csv" in name else "\t"
        rows = "text,label\n" + "a hen,yes\na duck,no\n" * 8
        text = "EU B-ORG\nrejects O\n\n" * 8 if task == "tag" else rows.replace(",", ending)
        (data / name).parent.mkdir(exist_ok=True)
        packed = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        (data / name).write_bytes(packed)
    for name in (train, str(Path(train).parent)):
        spec = start(survey(name), Answers())
        assert f"{dev} judges" in spec
        assert f'{task}("{train}", "{dev}"' in spec
        check(spec)


def test_a_folder_of_glue_is_read_as_one(data):
    (data / "MRPC").mkdir()
    rows = [f"{n % 2}\t1\t2\tA hen by the {n % 2}.\tA duck by the {n % 2}." for n in range(24)]
    for part in ("train", "dev"):
        table = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows, ""]
        (data / "MRPC" / f"{part}.tsv").write_text("\n".join(table))
    spec = start(survey("MRPC"), Answers(budget=SMALL.budget))
    assert 'task = glue(mrpc, "MRPC")' in spec
    assert "GLUE's dev part judges" in spec
    check(spec)
    assert "glue(" not in start(survey("MRPC"), Answers(budget=SMALL.budget, purpose="embed"))


WORDS = ("reed", "frog", "bird", "boat", "duck", "pond")
PAIRS = [
    ("sentence_A\tsentence_B\tscore\tjudged", "A {w} of {n}.\tNo {w} is {n} here.\t{n}.5\t{y}",
     'text="sentence_A", pair="sentence_B", label="score"', ""),
    ("no\tone\tother\tverdict", "{n}\tA {w} by {n}.\tThe {n} {w} of it.\t{y}",
     'text="one", pair="other", label="verdict"', ""),
    ("label\tquestion1\tquestion2", "{y}\tIs {n} a {w}?\tIs a {w} of {n}?",
     'text="question1", pair="question2", label="label"', ""),
    ("q\ta\tc\tlabel", "Is {n} a {w}?\tIt is a {w} {n}.\tThe {w} is by {n} ponds.\t{y}",
     'text="c", label="label"', "q, a hold text too"),
    ("text\tkind\tlabel", "A {w} of {n}.\tof a farm\t{y}", 'text="text", label="label"', ""),
]  # fmt: skip


@pytest.mark.parametrize(("head", "row", "columns", "remark"), PAIRS)
def test_no_column_of_text_is_dropped_in_silence(data, head, row, columns, remark):
    rows = (row.format(n=n, w=WORDS[n % 6], y=("yes", "no")[n % 2]) for n in range(48))
    (data / "train.tsv").write_text("\n".join([head, *rows]) + "\n")
    for purpose in ("classify", "pretrain"):
        spec = start(survey("train.tsv"), Answers(budget=SMALL.budget, purpose=purpose))
        comments = " ".join(spec.split("\n\n")[0].replace("#", "").split())
        if purpose == "classify":
            assert columns in " ".join(spec.split())
            assert remark in comments
            assert ("text too" in comments) == bool(remark)
        else:
            assert ("text too" in comments) == ("pair=" in columns or bool(remark))
        check(spec)


def test_texts_alone_are_embedded_from_one_file_with_a_text_a_line(data):
    spec = start(survey("text/[[]a]/farm.txt"), Answers(budget=SMALL.budget, purpose="embed"))
    assert 'task = embed("text/[a]/farm.txt")' in spec
    assert "read twice" in spec
    assert "sentences=lines" in spec, "they need not end with a full stop"
    (data / "text" / "more.txt").write_text("A duck.\n")
    assert purposes(survey("text")) == ("pretrain",)


TINY = ["layers=1", "hidden=16", "heads=2", "ffn=24", "steps=2", "batch=4", "seq=136"]


def test_the_spec_for_a_table_trains(data):
    spec = start(survey("train.csv"), SMALL)
    assert 'classify("train.csv", "dev.csv", text="Review", label="stars")' in spec
    assert "3 labels (0, 1, 2); dev.csv judges." in spec
    assert train(spec, data / "run", TINY).step == resolve(spec, TINY).steps


def test_what_is_seen_of_text_and_tables(data):
    text = survey("text")
    assert (text.kind, text.name) == ("text", "text/**/*.txt")
    assert {*NEEDS} == {purpose for _, purpose in EVERY}, "every purpose is tried"
    for language, written in (("", False), ("de", True)):
        spec = start(text, Answers(language=language, budget=SMALL.budget))
        assert ('language="de"' in spec) == written
    table = survey("train.csv")
    assert [*table.columns] == ["Review", "id", "stars"]
    assert table.dev == "dev.csv"
    (data / "bare.tsv").write_text("a hen and a duck.\t0.25\nthe pond of that.\t1.5\n")
    bare = survey("bare.tsv")
    assert [*bare.columns] == ["0", "1"], "no line of names"
    label = roles_of(bare.columns).label
    assert label.is_score
    (data / "[b]").mkdir()
    (data / "[b]" / "my.Train.csv").write_text(ROWS)
    (data / "[b]" / "my.valid.csv").write_text(ROWS)
    found = survey("[b]")
    assert (found.name, found.dev) == ("[b]/my.Train.csv", "[b]/my.valid.csv")
    assert roles_of(found.columns).label == roles_of(table.columns).label
    (data / "squad" / "dev-v2.0.json").write_text(json.dumps(QUESTIONS))
    found = survey("squad/")
    expected = ("questions", "squad/train-v2.0.json", "squad/dev-v2.0.json", 2)
    assert (found.kind, found.name, found.dev, found.version) == expected
    rows = [{"text": "a hen", "kind": "farm"}, {"text": "a reed", "kind": "lake"}] * 3
    (data / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    label = roles_of(survey("rows.jsonl").columns).label
    assert label.labels == ("farm", "lake")


def test_labels_are_seen_as_they_are_read(data):
    rows = [f"hen {n},{('nan', ' yes', 'yes', '2')[n % 4]},{n % 2},{n // 24}" for n in range(48)]
    (data / "rows.csv").write_text("\n".join(["text,label,rude,loud", *rows]))
    spec = start(survey("rows.csv"), SMALL)
    assert "The answer is label, 3 labels (2, nan, yes)" in spec
    assert "label=[rude, loud] learns all columns of 0 and 1 at once." in spec
    check(spec)


def test_what_is_no_data_is_said(data):
    os.mkfifo(data / "pipe")
    (data / "empty").mkdir()
    (data / "x.json").write_text("{}")
    (data / "lines.json").write_text('{"a": 1}\n{"a": 2}\n')
    (data / "excel.csv").write_text('text;label\n"a hen; a duck";yes\n')
    for name, error, message in (
        ("nowhere.txt", MissingInputError, "no file matches"),
        ("pipe", MissingInputError, "pipe cannot be read: it is no plain file"),
        ("empty", DataError, "no file with text"),
        ("x.json", DataError, "SQuAD"),
        ("lines.json", DataError, "not JSON: extra data"),
        ("excel.csv", DataError, "semicolons separate its cells, not commas"),
    ):
        pytest.raises(error, survey, name).match(message)
    with pytest.raises(UsageError, match=r"words and tags in columns, but .* has columns\n"):
        start(survey("train.csv"), Answers(purpose="tag"))
    with pytest.raises(UsageError, match="no network is within 1.00k: the smallest takes"):
        start(survey("text"), Answers(budget=Budget("params", 1e3)))


def test_budgets_and_machines_are_recognised_by_unit_name_and_number():
    named = {text: budget_named(text) for text in ("8h", "14M", "1e18")}
    assert [*named.values()] == [
        Budget("time", 28_800), Budget("params", 14e6), Budget("flops", 1e18),
    ]  # fmt: skip
    assert machine_named("h100x8") == Machine("h100", 8)
    assert machine_named("rtx4090") == Machine("rtx4090")
    for name in ("abacus", "h10"):
        error = pytest.raises(UsageError, machine_named, name)
    option, value = re.split("[ ,;]", error.value.help or "")[:2]
    assert option == "--machine"
    assert machine_named(value)


def test_a_classifier_without_a_second_file_has_a_line_that_gives_it_a_score(data):
    (data / "alone.csv").write_text(ROWS)
    spec = start(survey("alone.csv"), SMALL)
    assert "nothing judges it: see the line below the task" in spec
    lines = spec.splitlines()
    (at,) = (n for n, line in enumerate(lines) if "# task = " in line)
    assert "score" in lines[at - 1]
    lines[at - 2] = lines[at].replace("# ", "")
    assert evaluations_due(resolve("\n".join(lines)), 1)


@pytest.mark.parametrize(("limit", "purpose", "why"), [
    (Budget("params", 1.1e6), "pretrain", "the next larger shape takes more than all of it"),
    (Budget("time", 86_400), "pretrain", "would read the text more than 40 times"),
    (Budget("params", 4.5e5), "pretrain", ""),
])  # fmt: skip
def test_a_budget_that_is_not_used_up_is_explained(data, limit, purpose, why):
    spec = start(survey("train.csv"), Answers(budget=limit, purpose=purpose))
    said = [line for line in spec.splitlines() if "% of --budget " in line]
    assert [why in line for line in said] == [True] * bool(why)
    assert "bertc bench --calibrate measures it" in spec


def test_a_network_to_begin_from_keeps_its_size(data):
    bert_folder(data / "model", map(chr, range(97, 156)), hidden=64, layers=3)
    tagged = resolve(start(survey("conll"), Answers(init="model")))
    read_on = resolve(start(survey("text"), Answers(init="model", budget=Budget("time", 60))))
    assert tagged.encoder.depth == read_on.encoder.depth == 3
    assert read_on.steps == 100, "so small a text is not read more often"


def test_names_of_files_and_columns_are_shown_as_text(data):
    table = data / "traina\u202e<script>\x1b[31m\n'\"b.csv"
    table.write_text('"text","la\x1b[1mbel"\n' + "a hen,\x1b[2m\na duck,no\n" * 8)
    spec = start(survey(str(table)), SMALL)
    check(spec)
    assert not set("\u202e\x1b") & set(spec)


def test_the_command_asks_for_what_is_not_given_and_never_overwrites(data, monkeypatch, call):
    code, _, err = call("init", "--budget", "1M")
    assert (code, "--text FILE" in err) == (2, True)
    answers = iter(["nowhere", "train.csv", "five", "embed", "cpu"])
    monkeypatch.setattr(commands, "is_terminal", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    code, out, err = call("init", *["--language", "fr", "--budget", "1M", "-o", "mine.bertc"])
    assert (code, "no file matches nowhere" in err) == (0, True)
    assert "five: unknown" in err
    assert "bertc train mine.bertc" in out
    before = (data / "mine.bertc").read_text()
    assert 'language="fr"' in before
    code, _, err = call("init", "--text", "text", "-o", "mine.bertc")
    assert (code, "is there already" in err) == (2, True)
    assert (data / "mine.bertc").read_text() == before


def test_packed_files_of_a_folder_are_read_with_those_that_are_not(tmp_path):
    (tmp_path / "one.txt").write_text("a plain text\n" * 9)
    (tmp_path / "two.txt.gz").write_bytes(gzip.compress(b"a packed text\n" * 9))
    (tmp_path / "three.jsonl").write_text('{"text": "a row"}\n')
    for name in ("README.md", "LICENSE", "license-text.md", "changelog"):
        (tmp_path / name).write_text("about the text " * 99)
    seen = survey(str(tmp_path))
    assert [path.name for path in seen.files] == ["one.txt", "two.txt.gz"]
    assert seen.left_out == {".jsonl": 1}


@pytest.mark.parametrize(("first", "rows", "names"), [
    (("Lfd. Nr.", "Urteil"), (("{n}", "gut"), ("{n}", "mies")), True),
    (("Gefällt es?", "Text"), (("ja", "Ein Satz {n}."), ("nein", "Noch einer {n}!")), True),
    (("Frage?", "Antwort"), (("Was ist {n}?", "ja"), ("Wer ist {n}?", "nein")), True),
    (("Great film!", "pos"), (("Bad film {n}.", "neg"), ("Fine {n}.", "pos")), False),
])  # fmt: skip
def test_a_first_line_names_columns_or_is_a_row(first, rows, names, tmp_path):
    lines = [first, *(tuple(c.format(n=n) for c in rows[n % 2]) for n in range(20))]
    (tmp_path / "a.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
    columns = survey(str(tmp_path / "a.tsv")).columns
    assert tuple(columns) == (first if names else ("0", "1"))
    assert {len(cells) for cells in columns.values()} == {21 - names}
