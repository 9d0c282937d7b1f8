"""Data sets read through the ``datasets`` library: from the hub, its cache, or a local folder."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bertc.data.source import Piece, Source, whole
from bertc.diagnostics import DataError, MissingInputError
from bertc.ir.data import Hf

ROWS_AT_ONCE = 256


def open_hf(corpus: Hf) -> Source:
    """Find a data set; what is on the hub is downloaded, unless ``HF_HUB_OFFLINE`` is set.

    Raises:
        MissingInputError: it is not there, or cannot be reached.
        DataError: it has no such configuration, split or column of text.
    """
    rows = load(corpus)
    where = f"hf({corpus.name!r}, split={corpus.split})"
    if corpus.column not in rows.column_names:
        raise DataError(
            f"{where}: no column {corpus.column!r}; there are {', '.join(rows.column_names)}",
            f"column={rows.column_names[0]}" if rows.column_names else "",
        )
    stored = sorted(_stored(entry["filename"]) for entry in rows.cache_files)
    return Source(
        name=where,
        identity=(
            "hf",
            corpus.model_dump(mode="json", exclude={"language"}),
            rows.num_rows,
            *stored,
        ),
        sentences=corpus.sentences,
        total=rows.num_rows,
        unit="rows",
        text_bytes=rows.dataset_size or sum(size for _, size, _ in stored),
        read=partial(_documents, rows.select_columns([corpus.column]), corpus.column, where),
    )


def _stored(name: str) -> tuple[str, int, int]:
    stat = Path(name).stat()
    return name, stat.st_size, stat.st_mtime_ns


def load(corpus: Hf) -> Any:
    """The rows of a split.

    Raises:
        MissingInputError: it is not there, or cannot be reached.
        DataError: it has no such configuration or split.
    """
    import datasets

    where = f"hf({corpus.name!r})"
    shown = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        if _saved(Path(corpus.name)):
            found = datasets.load_from_disk(corpus.name)
            if isinstance(found, datasets.DatasetDict):
                if corpus.split not in found:
                    raise ValueError(f"no split {corpus.split!r}; there are {', '.join(found)}")
                return found[corpus.split]
            return found
        return datasets.load_dataset(corpus.name, corpus.config or None, split=corpus.split)
    except (FileNotFoundError, ConnectionError) as error:
        raise MissingInputError(
            f"{where} cannot be found: {_first_line(error)}",
            "check the name; with HF_HUB_OFFLINE=1 only what is in the local cache is found",
        ) from None
    except (ValueError, TypeError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{where} cannot be used: {_first_line(error)}") from None
    finally:
        if not shown:
            datasets.enable_progress_bars()


def _saved(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _documents(rows: Any, column: str, where: str) -> Iterator[Piece]:
    for batch in rows.iter(batch_size=ROWS_AT_ONCE):
        for text in batch[column]:
            if text is not None and not isinstance(text, str):
                raise DataError(f"{where}: column {column!r} does not hold text")
            yield from whole(text or "", 1)
