"""Opening of the source that a corpus names: docstrings, data sets of ``datasets``, files.

Source files are parsed, never imported, so no foreign code runs. Each module is a document of its
strings in source order, without those of at most 80 characters and without duplicates.
"""

import ast
import gc
import hashlib
import inspect
import os
import re
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError, as_data_error, listed
from bertc.base.storage.paths import is_taken
from bertc.ir.data import Corpus, Docstrings, Fasta, Files, Hf, Parallel, Prepared
from bertc.text.cache.workers import processes, spread
from bertc.text.sources.files import open_files, open_parallel
from bertc.text.sources.source import Piece, TextSource, pieces_of_text
from bertc.text.sources.tables import ColumnSelection, column_indices

MIN_CHARACTERS, MAX_SOURCE_BYTES = 81, 4 << 20
FILES_AT_ONCE, REREAD_SECONDS = 32, 16  # folders are listed once for all points of a grid
SOURCE_BYTES_PER_PROCESS = 16 << 20
"""Source code for which a worker process takes longer than to start."""
SKIPPED = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"}
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
BATCH_ROWS = 256
_UNKNOWN = re.compile(
    r"(?:Unknown split|BuilderConfig) [\"'](.*?)[\"'].*(?:one of|Available:) \[(.*)\]"
)
"""The errors of ``datasets`` for an unknown split or configuration, with those there are."""


def open_docstrings(corpus: Docstrings) -> TextSource:
    """Open the documentation strings of the named packages, or of all."""
    when = int(monotonic()) // REREAD_SECONDS
    modules = [module for root in _roots() for module in _modules(root, corpus.packages, when)]
    present = {relative.split("/")[0].removesuffix(".py") for _, relative, _ in modules}
    if missing := [name for name in corpus.packages if name not in present]:
        help = "name the top-level module as in an import statement, or write data=docstrings"
        raise MissingInputError(f"no Python source of package {missing[0]!r} is installed", help)
    files = [(path, facts.st_size) for path, _, facts in modules]
    total = sum(size for _, size in files)
    return TextSource(
        name="docstrings" + (f"({', '.join(corpus.packages)})" if corpus.packages else ""),
        identity=("docstrings", *((f, s.st_size, s.st_mtime_ns) for _, f, s in modules)),
        sentences="split", total=total, unit="bytes", text_bytes=total // 4,
        read=partial(_documents, files), slow=True,
    )  # fmt: skip


def _roots() -> list[Path]:
    paths = [*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *site.getsitepackages()]
    # Those of users, of PYTHONPATH, and of files that name more folders.
    paths += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in dict.fromkeys(Path(p).resolve() for p in paths) if path.is_dir()]


@lru_cache(8)
def _modules(root: Path, packages: tuple[str, ...], _: int) -> list[Any]:
    """Triples (path, path below the root, its facts) of the source files below a root, by name."""
    modules = []
    for folder, below, names in os.walk(root, followlinks=True):
        relative = folder[len(str(root)) + 1 :]
        chosen = packages if not relative else ()
        below[:] = sorted(
            name
            for name in below
            if name not in SKIPPED
            and (name.isidentifier() or relative)
            and (not chosen or name in chosen)
        )
        for name in sorted(names):
            if name.endswith(".py") and (not chosen or name.removesuffix(".py") in chosen):
                path = os.path.join(folder, name)
                if 0 < (facts := os.stat(path)).st_size <= MAX_SOURCE_BYTES:
                    modules.append((path, os.path.join(relative, name), facts))
    return modules


def _documents(files: list[tuple[str, int]]) -> Iterator[Piece]:
    number = processes(sum(size for _, size in files), SOURCE_BYTES_PER_PROCESS)
    seen: set[bytes] = set()
    amount = 0
    begins = range(0, len(files), FILES_AT_ONCE)
    batches = (files[begin : begin + FILES_AT_ONCE] for begin in begins)
    jobs = (([size for _, size in batch], [path for path, _ in batch]) for batch in batches)
    with closing(spread(_read, jobs, number)) as read:
        for sizes, documents in read:
            for size, texts in zip(sizes, documents, strict=True):
                amount += size
                new = []
                for text in texts:
                    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8)
                    if digest.digest() not in seen:
                        seen.add(digest.digest())
                        new.append(text)
                if text := "\n\n".join(new):
                    yield from pieces_of_text(text, amount)
                    amount = 0
    if amount:
        yield Piece("", True, amount)


def _read(paths: list[str]) -> list[list[str]]:
    return [list(_docstrings(path)) for path in paths]


def _docstrings(path: str) -> Iterator[str]:
    """The longer documentation strings of a file, in order; none if it cannot be parsed."""
    collecting = gc.isenabled()
    gc.disable()  # a tree has no cycles, and looking for them takes three quarters of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like, in others' code
            tree = ast.parse(Path(path).read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return
    finally:
        if collecting:
            gc.enable()
    for node in _in_order(tree):
        body = node.body[0] if node.body else None
        if (
            isinstance(body, ast.Expr)
            and isinstance(body.value, ast.Constant)
            and isinstance(text := body.value.value, str)
            and len(clean := inspect.cleandoc(text)) >= MIN_CHARACTERS
        ):
            yield clean.encode("utf-8", "replace").decode()


def _in_order(tree: ast.Module) -> Iterator[_Documented]:
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _Documented):
            yield node
        if not isinstance(node, ast.expr):
            stack += reversed(list(ast.iter_child_nodes(node)))


def open_hf(corpus: Hf) -> TextSource:
    """Open a data set; it is downloaded from the hub unless ``HF_HUB_OFFLINE`` is set."""
    rows = load_rows(corpus)
    where = f"hf({corpus.name!r}, split={corpus.split})"
    with guard_errors(where):
        names, count = list(rows.column_names), int(rows.num_rows)
        files = sorted(str(entry["filename"]) for entry in rows.cache_files)
        (place,) = column_indices(names, where, ColumnSelection((corpus.column,)))
        column, stated_bytes = rows.select_columns([names[place]]), rows.dataset_size
    facts = [(name, Path(name).stat()) for name in files]
    stored = [(name, file.st_size, file.st_mtime_ns) for name, file in facts]
    return TextSource(
        name=where,
        identity=("hf", corpus.model_dump(mode="json", exclude={"language"}), count, *stored),
        sentences=corpus.sentences, total=count, unit="rows",
        text_bytes=stated_bytes or sum(size for _, size, _ in stored),
        read=partial(_texts_in, column, names[place], where),
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


def batches(rows: Any) -> Iterator[Any]:
    """The rows as Arrow tables, validated: text outside of a damaged file ends the process."""
    for table in rows.with_format("arrow").iter(batch_size=BATCH_ROWS):
        table.validate(full=True)
        yield table


def _texts_in(rows: Any, column: str, where: str) -> Iterator[Piece]:
    with guard_errors(where):
        for table in batches(rows):
            for text in table.column(column).to_pylist():
                if text is not None and not isinstance(text, str):
                    raise DataError(f"{where}: column {column!r} does not hold text")
                yield from pieces_of_text(text or "", 1)


def open_source(corpus: Corpus, side: int | None = None) -> TextSource:
    """Open a corpus, or one side of a parallel one, without reading its text."""
    match corpus:
        case Docstrings():
            return open_docstrings(corpus)
        case Fasta() | Files():
            return open_files(corpus)
        case Hf():
            return open_hf(corpus)
        case Parallel():
            return open_parallel(corpus, side)
        case Prepared():
            raise DataError(
                f"the text at {corpus.path} is prepared: it is tokens already, nothing is learned",
                "leave vocab out: the run uses the tokenizer that the text is prepared with",
            )
