"""The documentation strings of Python's standard library and of installed packages.

Source files are parsed, never imported, so no foreign code runs. Each module is a document of its
strings in source order, without those of at most 80 characters and without duplicates.
"""

import ast
import gc
import hashlib
import inspect
import os
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from bertc.base.diagnostics import MissingInputError
from bertc.ir.data import Docstrings
from bertc.text.cache.workers import processes, spread
from bertc.text.sources.source import Piece, TextSource, pieces_of_text

MIN_CHARACTERS = 81
MAX_SOURCE_BYTES = 4 << 20
FILES_AT_ONCE = 32
SOURCE_BYTES_PER_PROCESS = 16 << 20
"""Source code for which a worker process takes longer than to start."""
SKIPPED = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"}
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def open_docstrings(corpus: Docstrings) -> TextSource:
    """Open the documentation strings of the named packages, or of all."""
    modules = [module for root in _roots() for module in _modules(root, corpus.packages)]
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
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    paths += [sysconfig.get_path("platlib"), *site.getsitepackages()]
    # Those of users, of PYTHONPATH, and of files that name more folders.
    paths += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in dict.fromkeys(Path(p).resolve() for p in paths) if path.is_dir()]


def _modules(root: Path, packages: tuple[str, ...]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Triples (path, path below the root, its facts) of the source files below a root, by name."""
    for folder, below, names in os.walk(root, followlinks=True):
        relative = folder[len(str(root)) + 1 :]
        wanted = packages if not relative else ()
        below[:] = sorted(
            name
            for name in below
            if name not in SKIPPED
            and (name.isidentifier() or relative)
            and (not wanted or name in wanted)
        )
        for name in sorted(names):
            if name.endswith(".py") and (not wanted or name.removesuffix(".py") in wanted):
                path = os.path.join(folder, name)
                if 0 < (facts := os.stat(path)).st_size <= MAX_SOURCE_BYTES:
                    yield path, os.path.join(relative, name), facts


def _documents(files: list[tuple[str, int]]) -> Iterator[Piece]:
    number = processes(sum(size for _, size in files), SOURCE_BYTES_PER_PROCESS)
    seen: set[bytes] = set()
    amount = 0
    batches = (files[at : at + FILES_AT_ONCE] for at in range(0, len(files), FILES_AT_ONCE))
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
