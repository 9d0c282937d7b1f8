"""Data sets of the ``datasets`` library: from the hub, its cache, or a local folder."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError, as_data_error, listed
from bertc.base.storage.paths import is_taken
from bertc.ir.data import Hf
from bertc.text.sources.source import Piece, TextSource, pieces_of_text

BATCH_ROWS = 256
_UNKNOWN = re.compile(
    r"(?:Unknown split|BuilderConfig) [\"'](.*?)[\"'].*(?:one of|Available:) \[(.*)\]"
)
"""The errors of ``datasets`` for an unknown split or configuration, with those there are."""


def open_hf(corpus: Hf) -> TextSource:
    """Open a data set; it is downloaded from the hub unless ``HF_HUB_OFFLINE`` is set."""
    rows = load_rows(corpus)
    where = f"hf({corpus.name!r}, split={corpus.split})"
    with guard_errors(where):
        names, count = list(rows.column_names), int(rows.num_rows)
        files = sorted(str(entry["filename"]) for entry in rows.cache_files)
        if corpus.column not in names:
            message = f"{where}: no column {corpus.column!r}; there are {', '.join(names)}"
            raise DataError(message, f"column={names[0]}" if names else "")
        column, stated_bytes = rows.select_columns([corpus.column]), rows.dataset_size
    facts = [(name, Path(name).stat()) for name in files]
    stored = [(name, file.st_size, file.st_mtime_ns) for name, file in facts]
    return TextSource(
        name=where,
        identity=("hf", corpus.model_dump(mode="json", exclude={"language"}), count, *stored),
        sentences=corpus.sentences, total=count, unit="rows",
        text_bytes=stated_bytes or sum(size for _, size, _ in stored),
        read=partial(_documents, column, corpus.column, where),
    )  # fmt: skip


def guard_errors(where: str) -> AbstractContextManager[None]:
    """A context that reports errors of ``datasets`` and pyarrow as damaged files."""
    return as_data_error(
        f"{where} cannot be read: its files are damaged, or none of a data set",
        "copy or save it again; files of text and tables are also read by files(...)",
    )


def load_rows(corpus: Hf) -> Any:
    """Load the rows of a split."""
    import datasets

    where, folder = f"hf({corpus.name!r})", Path(corpus.name)
    if is_taken(folder / "state.json") or is_taken(folder / "dataset_dict.json"):  # save_to_disk
        with guard_errors(where), _quiet(datasets):
            saved = datasets.load_from_disk(corpus.name)
        if isinstance(saved, datasets.DatasetDict) and corpus.split not in saved:
            raise _no_such(where, corpus.split, ", ".join(saved))
        return saved[corpus.split] if isinstance(saved, datasets.DatasetDict) else saved
    with guard_errors(where), _quiet(datasets):
        try:
            return datasets.load_dataset(corpus.name, corpus.config or None, split=corpus.split)
        except (FileNotFoundError, ConnectionError):
            raise MissingInputError(
                f"{where} cannot be found: no such folder with files of data, and no such data "
                "set in the local cache or on a hub that can be reached",
                "check the name; with HF_HUB_OFFLINE=1 only what is in the local cache is found",
            ) from None
        except ValueError as error:
            if unknown := _UNKNOWN.search(str(error)):
                raise _no_such(where, unknown[1], unknown[2]) from None
            raise


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    bars_disabled, level = datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL + 1)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if not bars_disabled:
            datasets.enable_progress_bars()


def _no_such(where: str, unknown: str, known: str) -> DataError:
    choices = listed([name.strip(" '\"") for name in known.split(",")])
    return DataError(f"{where}: no split or configuration {unknown!r}; there are {choices}")


def tables(rows: Any) -> Iterator[Any]:
    """The rows as Arrow tables, validated: text outside of a damaged file ends the process."""
    for table in rows.with_format("arrow").iter(batch_size=BATCH_ROWS):
        table.validate(full=True)
        yield table


def _documents(rows: Any, column: str, where: str) -> Iterator[Piece]:
    with guard_errors(where):
        for table in tables(rows):
            for text in table.column(column).to_pylist():
                if text is not None and not isinstance(text, str):
                    raise DataError(f"{where}: column {column!r} does not hold text")
                yield from pieces_of_text(text or "", 1)
