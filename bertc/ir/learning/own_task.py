"""The files of a task on a user's own data."""

from bertc.ir.data import Hf
from bertc.ir.learning.task import Name, Task

Rows = str | Hf
"""A .tsv, .csv, .jsonl or .parquet file, also .gz, or a split of a data set."""


class OwnTask(Task):
    """A task on a user's own files; columns are named, or numbered from 0 without a header.

    Each file may be missing: the training data of an imported head is unknown.
    """

    name: Name
    train: Rows = ""
    dev: Rows = ""
    test: Rows = ""
    positional = ("train", "dev", "test")

    @property
    def title(self) -> str:
        return self.name
