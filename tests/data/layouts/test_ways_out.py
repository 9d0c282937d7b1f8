"""What is said where a file is another task's, or is no table by its name alone."""

from pathlib import Path

import pytest

from bertc.data.layouts.table import table
from bertc.data.sources.cells import known_label, number
from bertc.data.sources.tables import ColumnSelection
from bertc.diagnostics import DataError


@pytest.mark.parametrize(
    ("name", "help"),
    [("tags/train.conll", 'task=tagging("tags")'), ("SICK_train.txt", "name it SICK_train.tsv if")],
)
def test_a_file_of_another_ending_is_not_just_renamed(name: str, help: str) -> None:
    with pytest.raises(DataError) as error:
        next(table(Path(name), ColumnSelection(("text",))))
    assert help in error.value.help


def test_a_column_of_another_task_names_it() -> None:
    with pytest.raises(DataError) as error:
        number("NEUTRAL", "a.tsv:2", "label")
    assert error.value.help == "classify learns labels, regress numbers"


def test_a_label_that_is_not_listed_leaves_the_list_to_the_file() -> None:
    with pytest.raises(DataError) as error:
        known_label("NEUTRAL", ("yes", "no"), "a.tsv:2")
    assert error.value.help == "name every label, or none: then they are read"
