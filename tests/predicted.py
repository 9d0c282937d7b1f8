"""Answers to a whole file at once."""

from pathlib import Path
from typing import Any

from bertc.use.predict import Predicted, answer_lines, columns_of, predict_parts


def predict(run: Path, file: Path, task: str = "", **options: Any) -> Predicted:
    """Answer the rows of a file in the layout of a task, labelled or not."""
    (only,) = predict_parts(run, file, task, **options)
    return only


def lines(answered: Predicted, file: Path) -> list[str]:
    """The JSON object of each row of the file."""
    return [*answer_lines([answered.rows(columns_of(answered.task, file))])]
