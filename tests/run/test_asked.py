"""What a trained run is asked afterwards, on the command line and in Python.
The texts that it learned from, the file that was named, rows; README's section as it stands.
"""

import re
from pathlib import Path
from typing import get_args

import pytest
import torch

import bertc
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.ir.learning.answer import Answer, Span
from bertc.ir.learning.custom_task import Choose, Classify, Many, Regress, Spans, Tag
from bertc.ir.learning.task import Glue
from bertc.ir.learning.vector_task import Embed, Rerank
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.task_lookup import task_of
from bertc.run.evaluation.tasks import evaluate_files, only_answer
from bertc.run.train.loop import train
from bertc.run.train.report import score_lines
from bertc.tasks.layouts.example import TextExample
from bertc.tasks.layouts.parts import scored_parts
from bertc.use import trained
from bertc.use.fill_mask import fill
from tests.predicted import predict

SPEC = "layers=1 hidden=16 heads=2 vocab=wordpiece(99) seq=16 batch=4 steps=2 device=cpu "
ROWS = [("a hen", "a bird", "yes"), ("a pond", "a bird", "no"), ("a duck", "a pond", "no")]


def table(path, names, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in (names, *rows)))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pairs in three parts, and words with tags in a folder of three."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tags").mkdir()
    for part, count in (("train", 3), ("dev", 2), ("test", 1)):
        table(folder / f"{part}.tsv", ("one", "two", "label"), ROWS[:count])
        lines = "".join(f"{word} {tag}\n" for word, tag in (("a", "O"), ("hen", "B-BIRD")))
        (folder / "tags" / f"{part}.txt").write_text(f"{lines}\n" * count)
    (folder / "farm.txt").write_text("a hen\n\na duck\n\na pond\n")
    table(folder / "new.tsv", ("text", "other"), [row[:2] for row in ROWS])
    return folder


def spec(files, task):
    return f"{SPEC} data=files('{files}/farm.txt') task={task}"


@pytest.fixture(scope="module")
def pairs(files):
    """A run that has learned pairs."""
    parts = ", ".join(f"'{files}/{part}.tsv'" for part in ("train", "dev", "test"))
    named = f"classify({parts}, text=one, pair=two, name=birds)"
    train(bertc.resolve(spec(files, named)), files / "run", cache=files / "cache", quiet=True)
    return files / "run"


def test_arguments_left_out_of_a_task_are_those_it_was_learned_with(files):
    named = f"classify('{files}/train.tsv', 'd', text=one, pair=two, dev_examples=1)"
    resolved = bertc.resolve(spec(files, named))
    asked = task_of(resolved, "classify('new.tsv', text=said)")[1]
    assert (asked.text, asked.pair, asked.label) == ("said", "two", "label")
    assert (asked.train, asked.dev, asked.labels) == ("new.tsv", "", ("no", "yes"))
    assert asked.dev_examples == 0, "a file that is named is scored as a whole"
    assert task_of(resolved, "classify(text=said)")[1].dev == "d"
    tags = bertc.resolve(spec(files, f"tagging('{files}/tags')"))
    assert task_of(tags, "tagging('new.txt')")[1].labels == ("O", "B-BIRD", "I-BIRD")
    squad = bertc.resolve(spec(files, "squad('squad', version=2, question=7, examples=9)"))
    asked = task_of(squad, "squad('dev.json')")[1]
    assert (asked.data, asked.dev, asked.version, asked.question) == ("dev.json", "", 2, 7)


def test_a_head_of_pairs_reads_pairs_alone(files):
    resolved = bertc.resolve(spec(files, f"classify('{files}/train.tsv', text=one, pair=two)"))
    for named in ("classify(text=one, pair='')", "xnli('x', name=classify)"):
        refused = pytest.raises(UsageError, task_of, resolved, named)
    assert "the answers of the task" in refused.value.message, "three labels, not two"
    with pytest.raises(UsageError, match="learned from text and pair, but .* reads text") as caught:
        task_of(resolved, "classify(text=one, pair='')")
    assert caught.value.help == '--task "classify(text=COLUMN, pair=COLUMN)"'
    single = bertc.resolve(spec(files, f"classify('{files}/train.tsv', text=one)"))
    with pytest.raises(UsageError, match="learned from text, but .* reads text and pair"):
        task_of(single, "classify(pair=two)")
    rte = bertc.resolve(spec(files, "glue(rte, 'RTE', examples=9)"))
    caught = pytest.raises(UsageError, task_of, rte, "classify(name=rte, text=one)")
    assert caught.value.help == '--task "classify(name=rte, text=COLUMN, pair=COLUMN)"'
    assert task_of(rte, "classify(name=rte, text=one, pair=two)")[1].pair == "two"


def test_a_second_text_is_never_dropped(pairs, files):
    with pytest.raises(DataError, match="no column 'one', 'two'; there are text, other") as caught:
        predict(pairs, files / "new.tsv", device="cpu")
    assert "classify(name=birds, text=COLUMN, pair=COLUMN)" in caught.value.help
    with pytest.raises(DataError, match="no column 'two'"):
        predict(pairs, files / "new.tsv", "classify(text=text)", device="cpu")
    found = predict(pairs, files / "new.tsv", "classify(text=text, pair=other)", device="cpu")
    assert found.examples[0].texts == ("a hen", "a bird")


def test_the_file_that_is_named_is_scored(pairs, files):
    own = evaluate_run(pairs, cache=files / "cache", quiet=True)
    assert own.evaluation.scores["birds"].keys() == {"dev"}
    assert own.notes == (f"birds dev: 2 examples of {files}/dev.tsv",)
    for named in (f"classify('{files}/test.tsv')", f"classify(test='{files}/test.tsv')"):
        report = evaluate_run(pairs, task=named, quiet=True)
        assert report.evaluation.examples == 1
        assert f"{files}/test.tsv" in report.summary(evaluated_only=True)
        name = "test" if "test=" in named else f"{files}/test.tsv"
        assert report.evaluation.scores["birds"].keys() == {name}
    both = evaluate_run(pairs, task=f"classify('{files}/train.tsv', '{files}/dev.tsv')", quiet=True)
    unknown = "birds: dev examples: 14.3% of the tokens are unknown to the vocabulary"
    assert both.notes == (*own.notes, unknown), "a part to judge by goes before one to learn from"
    with pytest.raises(DataError, match="no column 'label'") as refused:
        evaluate_run(pairs, task=f"classify('{files}/new.tsv', text=text, pair=other)", quiet=True)
    assert "label=COLUMN" in refused.value.help


def test_another_part_is_scored_by_its_name_or_an_option(pairs, files):
    report = evaluate_run(pairs, part="test", quiet=True)
    assert report.notes[0] == f"birds test: 1 example of {files}/test.tsv"
    sample = evaluate_run(pairs, Manner(examples=2), part="train", quiet=True)
    assert sample.notes[0] == f"birds train: 2 of 3 examples of {files}/train.tsv"
    with pytest.raises(MissingInputError, match="no part 'held'.*there are train, dev, test"):
        evaluate_run(pairs, part="held", quiet=True)
    with pytest.raises(UsageError, match="apply to text"):
        evaluate_run(pairs, Manner(seq=8), part="test", quiet=True)
    for part, help_ in (("test", """--task "classify(test='...')\""""), ("held", "check its name")):
        with pytest.raises(MissingInputError, match=f"no part '{part}'") as refused:
            scored_parts(Classify(train="a.tsv", dev="b.tsv"), part)
        assert refused.value.help == help_
    long = table(files / "long.tsv", ("one", "two", "label"), [("a hen " * 20, "a", "no"), ROWS[0]])
    assert evaluate_run(pairs, task=f"classify(test='{long}')", quiet=True).notes == (
        f"birds test: 2 examples of {long}", "birds: 1 of 2 test examples are cut to 16 tokens",
        "birds: test examples: 4.3% of the tokens are unknown to the vocabulary",
    )  # fmt: skip


def test_parts_and_files_of_a_folder_are_scored(files):
    run, file = files / "tagged", files / "tags" / "train.txt"
    resolved = bertc.resolve(spec(files, f"tagging('{files}/tags')"))
    train(resolved, run, cache=files / "cache", quiet=True)
    report = evaluate_run(run, part="test", quiet=True)
    assert report.notes == (f"ner test: 1 example of {files}/tags/test.txt",)
    report = evaluate_run(run, task=f"tagging('{file}')", quiet=True)
    assert report.evaluation.scores["ner"].keys() == {str(file)}
    with pytest.raises(MissingInputError, match="no parts"):
        evaluate_run(run, task=f"tagging('{file}')", part="test", quiet=True)

    def examples(name, content):
        (files / name).write_text(content)
        return predict(run, files / name, device="cpu").examples

    (example,) = examples("plain.txt", "I live in New York\n")
    assert example.words == ("I", "live", "in", "New", "York")
    first, *others = examples("tab.txt", "I live in\tYork\nYork is old\nI like it\n")
    assert (first.words, len(others)) == (("I", "live", "in", "York"), 2)
    caught = pytest.raises(DataError, examples, "plain.jsonl", '{"words": ["New", "York"]}\n')
    assert caught.value.help.startswith("a word a line")


def test_dev_examples_shorten_a_dev_part(files, capsys):
    named = f"'{files}/train.tsv', '{files}/dev.tsv', text=one, pair=two, dev_examples=1"
    resolved = bertc.resolve(spec(files, f"classify({named})"))
    assert train(resolved, files / "short", cache=files / "cache").evaluation.examples == 1
    assert "scored on 1 of 2 dev examples (dev_examples)" in capsys.readouterr().err
    assert '"dev_examples"' in (files / "short" / "resolved.json").read_text()
    whole = bertc.resolve(spec(files, f"classify({named.replace(', dev_examples=1', '')})"))
    assert "dev_examples" not in whole.model_dump_json(), "runs from before it stay the same"


def test_one_answer_to_everything_is_reported(tmp_path, corpus_file, go):
    """By a classifier that has seen one label alone, of a dev part that has both."""
    for part, labels in (("train", ["no"] * 20), ("dev", ["no", "yes"])):
        rows = "".join(f"the ducks sit on tree {i}\t{label}\n" for i, label in enumerate(labels))
        (tmp_path / f"{part}.tsv").write_text(f"text\tlabel\n{rows}")
    task = f"classify('{tmp_path}/train.tsv', '{tmp_path}/dev.tsv', labels=[no, yes])"
    more = f"data=files('{corpus_file}') optimizer=adam(lr=1e-2, warmup=0) compile=off"
    report = go(f"{SPEC.replace('steps=2', 'steps=10')} task={task} {more}")
    run = tmp_path / "run"
    assert report.evaluation.always == {"classify": {"dev": "no"}}
    assert report.evaluation.scores["classify"]["dev"]["accuracy"] == 0.5
    assert "classify dev: every example got the answer `no`\n" in report.summary()
    assert '"always": {"classify": {"dev": "no"}}' in (run / "metrics.jsonl").read_text()
    assert evaluate_files(run, "")[0].always == {"classify": {"dev": "no"}}


MANY = Classify(labels=Many(names=("x", "y")))
ONE = [  # a task, right answers, answers, and the one that all examples got
    (Glue(task="stsb", data="-"), (1.0, 3.0, 5.0), (3.5986, 3.5991, 3.5994), "about 3.599"),
    (Regress(), (1.0, 3.0, 5.0), (3.2, 3.5, 3.8), None),
    (Regress(label=("a", "b")), ((0.0, 0.0), (1.0, 9.0)), ((0.1, 2.5), (0.4, 2.5)), "b about 2.5"),
    (Rerank(), (0.0, 1.0), (0.3, 0.3001), "between 0.3 and 0.3001"),
    (Embed(positive="b", score="s"), (0.0, 5.0), (0.99, 0.99), "about 0.99"),
    (Embed(positive="b"), (None, None), (0, 0), None),
    (Choose(), (0, 1, 2), (2, 2, 2), "2"),
    (Classify(labels=("x", "y")), ("x", "y"), ("y", "y"), "y"),
    (MANY, (("x",), ()), (("x",), ()), None),
    (MANY, (("x",), ()), (("x", "y"), ("x", "y")), "x, y"),
    (Tag(labels=("O", "P")), (("O",), ("P", "O")), (("O",), ("O", "O")), "O"),
    (Spans(labels=("P",)), (("O",), ("B-P", "O")), (("O",), ("O", "O")), "O"),
]


@pytest.mark.parametrize(("task", "right", "answers", "same"), ONE)
def test_one_answer_to_everything_is_seen_of_every_task(task, right, answers, same):
    kinds = {type(case[0].answer) for case in ONE} | {Span}  # spans are below
    assert kinds == {*get_args(get_args(Answer)[0])}
    examples = [TextExample(str(n), (), gold) for n, gold in enumerate(right)]
    assert only_answer(task, examples, answers) == same


def test_no_answer_is_one_too():
    scores = {"squad": {"dev": {"em": 0.5}, "other": {"em": 0.25}}}
    found = Evaluation(1.0, {}, {}, 2, scores=scores, always={"squad": {"dev": ""}})
    dev, other = "squad dev: em 0.5000 (every example got no answer)", "squad other: em 0.2500"
    assert score_lines(found) == [dev, other]


README = Path(__file__).parents[2] / "README.md"
PARTS = {
    "classify": ("text\tpair\tlabel", "a hen\ta bird\tyes\na pond\ta hen\tno", ", pair=pair"),
    "regress": ("text\tlabel", "a hen\t1\na pond\t2", ""),
    "choose": ("question\ta\tb\tlabel", "a hen\tpond\tbird\t1", ", choices=[a, b]"),
    "tag": ("words\ttags", "a hen\tO BIRD\na pond\tO O", ""),
    "read": ("context\tquestion\tanswer\tstart", "a hen\twho\then\t2", ""),
    "embed": ("text\tpair", "a hen\ta bird\na pond\ta hen", ", positive=pair"),
}
ASKED = {
    "classify": ("a hen", "a bird"), "regress": "a hen", "choose": ("a hen", ["pond", "bird"]),
    "tag": "a hen", "read": ("a hen", "who"), "embed": ("a hen", "a bird"),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of text, and one of each task in files of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "farm.txt").write_text("a hen\n\na duck\n\na pond and a bird\n")

    def make(name, spec):
        resolved = bertc.resolve(f"{SPEC} data=files('{folder}/farm.txt') {spec}")
        train(resolved, folder / "runs" / name, cache=folder / "cache", quiet=True)

    make("quickstart", "holdout=0.3 eval_examples=2")
    for kind, (names, rows, more) in PARTS.items():
        (folder / f"{kind}.tsv").write_text(f"{names}\n{rows}\n")
        make(kind, f"task={kind}('{folder}/{kind}.tsv'{more})")
    (folder / "runs" / "regress").rename(folder / "runs" / "stars")
    return folder


@pytest.mark.parametrize("kind", PARTS)
def test_rows_are_answered_as_those_of_a_file(runs, kind):
    run = runs / "runs" / ("stars" if kind == "regress" else kind)
    found = predict(run, runs / f"{kind}.tsv", device="cpu")
    names, rows, _ = PARTS[kind]
    by_column = dict(zip(names.split("\t"), rows.split("\n")[0].split("\t"), strict=True))
    of_rows, same = bertc.load(run).predict([ASKED[kind], by_column])
    assert numbers(of_rows) == pytest.approx(numbers(same), abs=1e-5)
    of_file = {name: value for name, value in next(found.each()).items() if name in of_rows}
    assert numbers(of_rows) == pytest.approx(numbers(of_file), abs=0.02), "in fp32, not in bf16"


def numbers(value):
    if isinstance(value, dict | list | tuple):
        each = value.values() if isinstance(value, dict) else value
        return [number for one in each for number in numbers(one)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize(("kind", "row"), [
    ("classify", "a hen"), ("classify", ("a", "b", "c")), ("choose", ("a hen", "pond")),
    ("choose", ("a hen", ["pond"])), ("read", "a hen"), ("tag", 7), ("stars", ("a hen", None)),
    ("stars", {"text": None}), ("choose", {"question": "a hen", "a": "pond"}),
])  # fmt: skip
def test_a_row_of_another_shape_says_what_is_expected(runs, kind, row):
    named = type(row).__name__
    with pytest.raises(TypeError, match=rf"row 0: \w+ expects .*, not (?:{named} |[\w, ]+$)"):
        bertc.load(runs / "runs" / kind).predict([row])


def test_a_row_may_name_its_columns_in_another_form_of_unicode():
    assert trained._inputs(Classify(text="\u00e9"), 0, {"e\u0301": "a hen"}) == ("a hen",)


def test_texts_become_what_encode_takes(runs):
    model = bertc.load(runs / "runs" / "quickstart")
    batch = model.tokenizer(["a hen", ("a duck", "a pond and a bird")])
    assert {name: (t.shape[0], t.dtype) for name, t in batch.items()} == {
        "token_ids": (2, torch.long), "segment_ids": (2, torch.long),
        "attention_mask": (2, torch.bool),
    }  # fmt: skip
    assert not batch["attention_mask"][0].all()
    assert batch["segment_ids"][1].max() == 1
    hidden = model.encode(**batch)
    alone = model.encode(**model.tokenizer("a hen"))
    torch.testing.assert_close(hidden[:1, : alone.shape[1]], alone)
    assert model.tokenizer(["a hen " * 99])["token_ids"].shape == (1, 16), "no more positions"
    assert model.tokenizer([])["token_ids"].shape == (0, 0)
    pytest.raises(TypeError, model.tokenizer, [["a", "b"]]).match("neither a text nor")
    pytest.raises(UsageError, model.fill, "a [MASK]", top=0).match("top is 0")
    assert model.fill("a [MASK]", top=2) == fill(runs / "runs" / "quickstart", "a [MASK]", top=2)


TENSOR = r"\(batch, seq\) expected; .*model.tokenizer"
MISTAKEN = {  # what a run is asked, with what, and why not
    "predict": (("a hen", {"text": "a hen"}), "a list expected"),
    "embed": (("a hen", {"text": "a hen"}), "a list expected"),
    "fill": ((5, ["a [MASK]"], None), "text is a .*: a str expected"),
    "encode": (("hello", [[1, 2]], torch.ones(3).long(), torch.ones(1, 3)), TENSOR),
}


@pytest.mark.parametrize("question", MISTAKEN)
def test_what_is_no_text_tensor_or_list_is_refused(runs, question):
    given, why = MISTAKEN[question]
    run = "classify" if why == "a list expected" else "quickstart"
    model = bertc.load(runs / "runs" / run)
    for one in given:
        with pytest.raises(TypeError, match=why):
            getattr(model, question)(one)


def test_the_section_of_the_readme_runs(runs, monkeypatch, capsys):
    section = README.read_text().partition("## From Python")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    monkeypatch.chdir(runs)
    monkeypatch.setenv("BERTC_CACHE", str(runs / "cache"))
    toy = f"{SPEC} data=files('{runs}/farm.txt') holdout=0.3 eval_examples=2"
    names = {}
    exec(code.replace("extends quickstart", toy).replace("steps=100, ", ""), names)
    assert names["report"].step == 2
    assert names["hidden"].shape[::2] == (2, 16)
    assert "parameters" in capsys.readouterr().out
