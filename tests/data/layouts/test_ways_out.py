"""What is said where a file is another task's, or is no table by its name alone."""

from pathlib import Path

import pytest

from bertc.data.layouts.find import files_of
from bertc.data.layouts.table import table
from bertc.data.sources.cells import known_label, number
from bertc.data.sources.tables import ColumnSelection
from bertc.diagnostics import DataError, MissingInputError
from bertc.storage.tagged import has_tagged_words


@pytest.mark.parametrize(
    ("name", "help"),
    [("tags/train.conll", 'task=tagging("tags")'), ("SICK_train.txt", "name it SICK_train.tsv if")],
)
def test_a_file_of_another_ending_is_not_just_renamed(
    name: str, help: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tags").mkdir()
    Path(name).write_text("id\ttext\n1\tA man walks.\n\n")
    with pytest.raises(DataError) as error:
        next(table(Path(name), ColumnSelection(("text",))))
    assert help in error.value.help


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
    assert f'task=tagging("{tmp_path}")' in error.value.help
    with pytest.raises(DataError) as error:
        files_of(str(path))
    assert error.value.help == f'name its folder: "{tmp_path}"'


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_text_is_not_taken_for_words_with_tags(content: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(content)
    assert not has_tagged_words(path)


def test_a_table_that_is_not_there_is_missing_whatever_its_ending(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        next(table(tmp_path / "x.txt", ColumnSelection(("text",))))


def test_a_column_of_another_task_names_it() -> None:
    with pytest.raises(DataError) as error:
        number("NEUTRAL", "a.tsv:2", "label")
    assert error.value.help == "classify learns labels, regress numbers"


def test_a_label_that_is_not_listed_leaves_the_list_to_the_file() -> None:
    with pytest.raises(DataError) as error:
        known_label("NEUTRAL", ("yes", "no"), "a.tsv:2")
    assert error.value.help == "name every label, or none: then they are read"
