"""What is said where a file is another task's, or is no table by its name alone."""

from pathlib import Path

import pytest

from bertc.api import check
from bertc.base.diagnostics import DataError, SpecError
from bertc.ir.learning.custom_task import Classify, Tag
from bertc.tasks.layouts.example import TaggedExample
from bertc.tasks.layouts.parts import training_examples
from bertc.tasks.layouts.survey import survey
from bertc.tasks.layouts.table import files_of, is_tagged_file, table
from bertc.text.sources.tables import ColumnSelection
from bertc.use.predict import columns_of


def test_a_table_of_tabs_may_have_any_ending(tmp_path: Path) -> None:
    path = tmp_path / "SICK_train.txt"
    path.write_text("pair_ID\ttext\tlabel\n1\tA man walks.\tyes\n\n2\tA hen.\tno\n")
    task = Classify(train=str(path), labels=("yes", "no"))
    examples = training_examples(task)
    assert [(e.key, e.texts) for e in examples] == [("0", ("A man walks.",)), ("1", ("A hen.",))]
    assert [*(columns_of(task, path) or ())] == [
        {"pair_ID": "1", "text": "A man walks.", "label": "yes"},
        {"pair_ID": "2", "text": "A hen.", "label": "no"},
    ]
    for content in ("A man walks.\nA hen.\n", "a\tb\nc\n", ""):
        path.write_text(content)
        with pytest.raises(DataError, match="unknown format '.txt' of a table, and no tabs part"):
            training_examples(task)


@pytest.mark.parametrize(
    ("name", "content", "tags", "right"),
    [
        ("x.conll", "EU NNP B-ORG\nrejects VBZ O\n\nit PRP O\n", "tags", ("B-ORG", "O")),
        ("x.conll", "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n", "pos", ("NNP", "VBZ")),
        ("x.txt", "EU\tI-ORG\nrejects\tO\n\n" * 2, "tags", ("B-ORG", "O")),
        ("x.conllu", "1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n\n", "tags", ("PRON",)),
    ],
)
def test_one_file_of_words_and_tags_is_read_alone(tmp_path, name, content, tags, right):
    path = tmp_path / name
    path.write_text(content)
    task = Tag(train=str(path), tags=tags)
    first, *_ = training_examples(task)
    assert isinstance(first, TaggedExample)
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
def test_words_with_tags_in_a_text_file_name_their_task(content: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        next(table(path, ColumnSelection(("text",))))
    assert f'task=tag("{path}")' in error.value.help
    with pytest.raises(DataError) as error:
        files_of(str(path))
    assert error.value.help == f'name its folder: "{tmp_path}"'


@pytest.mark.parametrize(
    ("name", "content", "help"),
    [
        ("a.json", '[{"text": "hen"}]', "jq -c '.[]' a.json > a.jsonl"),
        ("a.json", '{"text": "hen"}\n{"text": "duck"}\n', "an object a line: name it a.jsonl"),
        ("a.tsv.bz2", "", "bzip2 -dc a.tsv.bz2 | gzip > a.tsv.gz"),
        ("a.zip", "", "unzip a.zip -d a,"),
        ("a.jsonl", '{"text": {"body": "hen"}, "label": 1}', '"text.body" names a member of it'),
    ],
)
def test_rows_in_other_files_have_a_way_out(name, content, help, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    looks = [lambda: training_examples(Classify(train=name)), lambda: survey(name)]
    for look in looks[: 1 + (name != "a.jsonl")]:
        with pytest.raises(DataError) as error:
            look()
        assert help in error.value.help


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_text_is_not_taken_for_words_with_tags(content: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(content)
    assert not is_tagged_file(path)


def test_mistakes_in_files_of_tasks_come_at_once_at_their_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("text\tlabel\nA hen.\tyes\nA duck.\tno\n")
    (tmp_path / "b.tsv").write_text("text\tlabel\nA hen.\tmaybe\n")
    reviews = [f"{'ny'[n % 2]}\tThe hen {n} {'walks over the wet yard ' * 4}" for n in range(4)]
    (tmp_path / "swapped.tsv").write_text("\n".join(["text\tlabel", *reviews]))
    good = 'classify("a.tsv", "b.tsv", name=one)'
    cases = {
        f'{good} + classify("a.tsv", "gone.tsv", text=said, label=mark)': [
            ("unknown label 'maybe'", "b.tsv"),
            ("no column 'said', 'mark'", "a.tsv"),
            ("gone.tsv is not there", "gone.tsv"),
        ],
        f'glue(rte, "x") + {good}': [("no folder x", "x"), ("unknown label 'maybe'", "b.tsv")],
        'classify("a.tsv", "gone.tsv", "lost.tsv")': [
            ("gone.tsv is not there", "gone.tsv"),
            ("no test file lost.tsv", "lost.tsv"),
        ],
        'classify("swapped.tsv", "a.tsv")': [("unknown label 'yes'", "a.tsv")],
    }
    for task, mistakes in cases.items():
        with pytest.raises(SpecError) as error:
            check(f"layers=1 hidden=8 heads=2 task={task}")
        assert len(error.value.diagnostics) == len(mistakes)
        for found, (message, place) in zip(error.value.diagnostics, mistakes, strict=True):
            assert found.code == "E309"
            assert message in found.message
            assert found.span is not None
            assert found.span.text == f'"{place}"'
