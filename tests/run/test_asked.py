"""What a tuned run is asked afterwards: the texts that it learned from, the file that was named."""

from typing import get_args

import pytest

import bertc
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.ir.learning.answer import Answer, Span
from bertc.ir.learning.custom_task import Choose, Classify, Many, Regress, Tag
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
    resolved = bertc.resolve(
        spec(files, f"classify('{files}/train.tsv', 'd', text=one, pair=two, dev_examples=1)")
    )
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
        with pytest.raises(UsageError) as refused:
            task_of(resolved, named)
    assert "the answers of the task" in refused.value.message, "three labels, not two"
    with pytest.raises(UsageError, match="learned from text and pair, but .* reads text") as caught:
        task_of(resolved, "classify(text=one, pair='')")
    assert caught.value.help == '--task "classify(text=COLUMN, pair=COLUMN)"'
    single = bertc.resolve(spec(files, f"classify('{files}/train.tsv', text=one)"))
    with pytest.raises(UsageError, match="learned from text, but .* reads text and pair"):
        task_of(single, "classify(pair=two)")
    rte = bertc.resolve(spec(files, "glue(rte, 'RTE', examples=9)"))
    with pytest.raises(UsageError) as caught:
        task_of(rte, "classify(name=rte, text=one)")
    assert caught.value.help == '--task "classify(name=rte, text=COLUMN, pair=COLUMN)"'
    assert task_of(rte, "classify(name=rte, text=one, pair=two)")[1].pair == "two"


def test_a_second_text_is_never_dropped(pairs, files):
    with pytest.raises(DataError, match="no column 'one', 'two'; there are text, other") as caught:
        predict(pairs, files / "new.tsv", device="cpu", quiet=True)
    assert "classify(name=birds, text=COLUMN, pair=COLUMN)" in caught.value.help
    with pytest.raises(DataError, match="no column 'two'"):
        predict(pairs, files / "new.tsv", "classify(text=text)", device="cpu", quiet=True)
    asked = "classify(text=text, pair=other)"
    found = predict(pairs, files / "new.tsv", asked, device="cpu", quiet=True)
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
    assert both.notes == own.notes, "a part to judge by goes before one to learn from"
    with pytest.raises(DataError, match="no column 'label'") as refused:
        evaluate_run(pairs, task=f"classify('{files}/new.tsv', text=text, pair=other)", quiet=True)
    assert "label=COLUMN" in refused.value.help


def test_another_part_is_scored_by_its_name(pairs, files):
    report = evaluate_run(pairs, part="test", quiet=True)
    assert report.notes == (f"birds test: 1 example of {files}/test.tsv",)
    sample = evaluate_run(pairs, Manner(examples=2), part="train", quiet=True)
    assert sample.notes == (f"birds train: 2 of 3 examples of {files}/train.tsv",)
    with pytest.raises(MissingInputError, match="no part 'held'.*there are train, dev, test"):
        evaluate_run(pairs, part="held", quiet=True)
    with pytest.raises(UsageError, match="apply to text"):
        evaluate_run(pairs, Manner(seq=8), part="test", quiet=True)


def test_a_part_that_was_not_named_is_named_by_an_option(files):
    for part, help_ in (("test", """--task "classify(test='...')\""""), ("held", "check its name")):
        with pytest.raises(MissingInputError, match=f"no part '{part}'") as refused:
            scored_parts(Classify(train="a.tsv", dev="b.tsv"), part)
        assert refused.value.help == help_


def test_truncated_rows_of_the_scored_part_are_reported(pairs, files):
    long = table(files / "long.tsv", ("one", "two", "label"), [("a hen " * 20, "a", "no"), ROWS[0]])
    report = evaluate_run(pairs, task=f"classify(test='{long}')", quiet=True)
    first, cut = report.notes
    assert first == f"birds test: 2 examples of {long}"
    assert cut == "birds: 1 of 2 test examples are cut to 16 tokens"


def test_parts_and_files_of_a_folder_are_scored(files):
    resolved = bertc.resolve(spec(files, f"tagging('{files}/tags')"))
    train(resolved, files / "tagged", cache=files / "cache", quiet=True)
    report = evaluate_run(files / "tagged", part="test", quiet=True)
    assert report.notes == (f"ner test: 1 example of {files}/tags/test.txt",)
    file = files / "tags" / "train.txt"
    report = evaluate_run(files / "tagged", task=f"tagging('{file}')", quiet=True)
    assert report.evaluation.scores["ner"].keys() == {str(file)}
    with pytest.raises(MissingInputError, match="no parts"):
        evaluate_run(files / "tagged", task=f"tagging('{file}')", part="test", quiet=True)
    (files / "plain.txt").write_text("I live in New York\n")
    found = predict(files / "tagged", files / "plain.txt", device="cpu", quiet=True)
    (example,) = found.examples
    assert example.words == ("I", "live", "in", "New", "York")
    (files / "tab.txt").write_text("I live in\tYork\nYork is old\nI like it\n")
    first, *others = predict(files / "tagged", files / "tab.txt", device="cpu", quiet=True).examples
    assert (first.words, len(others)) == (("I", "live", "in", "York"), 2)
    (files / "plain.jsonl").write_text('{"words": ["New", "York"]}\n')
    with pytest.raises(DataError) as caught:
        predict(files / "tagged", files / "plain.jsonl", device="cpu", quiet=True)
    assert caught.value.help.startswith("a word a line")


def test_dev_examples_shorten_a_dev_part(files, capsys):
    named = f"'{files}/train.tsv', '{files}/dev.tsv', text=one, pair=two, dev_examples=1"
    resolved = bertc.resolve(spec(files, f"classify({named})"))
    report = train(resolved, files / "short", cache=files / "cache")
    assert report.evaluation.examples == 1
    assert "scored on 1 of 2 dev examples (dev_examples)" in capsys.readouterr().err
    assert '"dev_examples"' in (files / "short" / "resolved.json").read_text()
    whole = bertc.resolve(spec(files, f"classify({named.replace(', dev_examples=1', '')})"))
    assert "dev_examples" not in whole.model_dump_json(), "runs from before it stay the same"


@pytest.fixture
def biased(tmp_path, corpus_file):
    """A classifier that has seen one label alone, in a file whose dev part has both."""
    for part, labels in (("train", ["no"] * 20), ("dev", ["no", "yes"])):
        rows = "".join(f"the ducks sit on tree {i}\t{label}\n" for i, label in enumerate(labels))
        (tmp_path / f"{part}.tsv").write_text(f"text\tlabel\n{rows}")
    task = f"classify('{tmp_path}/train.tsv', '{tmp_path}/dev.tsv', labels=[no, yes])"
    spec = (
        f"layers=1 hidden=16 heads=2 vocab=wordpiece(120) task={task} steps=10 batch=8 seq=16 "
        f"data=files('{corpus_file}') device=cpu compile=off optimizer=adam(lr=1e-2, warmup=0)"
    )
    cache = tmp_path / "cache"
    return train(bertc.resolve(spec), tmp_path / "run", cache=cache, quiet=True), tmp_path / "run"


def test_one_answer_to_everything_is_reported(biased):
    report, run = biased
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
    (Rerank(), (0.0, 1.0), (0.3, 0.3001), "about 0.3"),
    (Embed(positive="b", score="s"), (0.0, 5.0), (0.99, 0.99), "about 0.99"),
    (Embed(positive="b"), (None, None), (0, 0), None),
    (Choose(), (0, 1, 2), (2, 2, 2), "2"),
    (Classify(labels=("x", "y")), ("x", "y"), ("y", "y"), "y"),
    (MANY, (("x",), ()), (("x",), ()), None),
    (MANY, (("x",), ()), (("x", "y"), ("x", "y")), "x, y"),
    (Tag(labels=("O", "P")), (("O",), ("P", "O")), (("O",), ("O", "O")), "O"),
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
    assert score_lines(found) == [
        "squad dev: em 0.5000 (every example got no answer)",
        "squad other: em 0.2500",
    ]
