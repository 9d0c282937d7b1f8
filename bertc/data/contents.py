"""Contents of texts and files that a program reads, to see whether they are those of a run."""

import hashlib
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from bertc.data.batches.smoothing import texts_of
from bertc.data.cache.store import fingerprint
from bertc.data.corpus import PreparedCorpus
from bertc.data.layouts import dev_parts, part_source
from bertc.data.sources.files import file_identity
from bertc.data.sources.source import CorpusText, TextSource, open_source
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.resolved import Resolved
from bertc.storage import durable
from bertc.storage.paths import is_file

_Key = TypeVar("_Key", bound=Hashable)


class SourceContent(NamedTuple):
    """``identity`` changes with names and times of files too, ``digest`` with what they hold."""

    identity: str
    digest: str


class _Named(NamedTuple):
    """Text or the files of a task, before it is read."""

    name: str
    identity: str
    digest: Callable[[], str]


def contents(corpus: PreparedCorpus) -> dict[str, SourceContent]:
    """Contents of the text that was prepared and of the files of tasks, by name."""
    texts = zip(map(_text, _texts(corpus.resolved)), corpus.texts, strict=True)
    read = {
        text.name: SourceContent(text.identity, known.facts["content"]) for text, known in texts
    }
    files = chain.from_iterable(map(_task_files, _tasks(corpus.resolved)))
    return read | {each.name: SourceContent(each.identity, each.digest()) for each in files}


class Today:
    """Contents that programs would read now; a source is opened once, and read if it may differ."""

    def __init__(self) -> None:
        self._opened: dict[Hashable, tuple[_Named, ...]] = {}
        self._digests: dict[str, str] = {}

    def changed(self, resolved: Resolved, was: Mapping[str, SourceContent]) -> list[str]:
        """Names of what holds something else than for the run of this program that kept ``was``.

        Raises:
            MissingInputError, DataError: if a source is not there, or cannot be read.
        """
        texts = [self._known(text, lambda text: (_text(text),)) for text in _texts(resolved)]
        files = [self._known(task, _task_files) for task in _tasks(resolved)]
        return [
            each.name
            for each in chain.from_iterable((*texts, *files))
            if each.name in was and was[each.name].identity != each.identity
            if was[each.name].digest != self._digest(each)
        ]

    def _known(self, key: _Key, opened: Callable[[_Key], tuple[_Named, ...]]) -> tuple[_Named, ...]:
        if key not in self._opened:
            self._opened[key] = opened(key)
        return self._opened[key]

    def _digest(self, source: _Named) -> str:
        if source.identity not in self._digests:
            self._digests[source.identity] = source.digest()
        return self._digests[source.identity]


def _texts(resolved: Resolved) -> list[CorpusText]:
    """The texts of a program, in the order in which they are prepared."""
    return [*dict.fromkeys(text for stage in resolved.stages for _, text in texts_of(stage))]


def _tasks(resolved: Resolved) -> list[AnyTask]:
    return [*dict.fromkeys(task for stage in resolved.stages for task in stage.tasks)]


def _text(text: CorpusText) -> _Named:
    source = open_source(*text)
    return _Named(source.name, fingerprint(source.identity), partial(_text_digest, source))


def _text_digest(source: TextSource) -> str:
    """sha256 of all documents, as preparation computes it."""
    digest = hashlib.sha256()
    for text, first, _, _ in source.read():
        digest.update(b"\0" * first + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _task_files(task: AnyTask) -> tuple[_Named, ...]:
    """Files and folders of a task's parts; not data sets of a hub, which have versions there."""
    paths = [part_source(task, part) for part in ("train", *dev_parts(task))]
    return tuple(_files(path) for path in dict.fromkeys(paths) if isinstance(path, Path))


def _files(path: Path) -> _Named:
    files = [file for file in (path, *sorted(path.rglob("*"))) if is_file(file)]
    identity = fingerprint([file_identity(file) for file in files])
    return _Named(str(path), identity, partial(_files_digest, path, files))


def _files_digest(path: Path, files: list[Path]) -> str:
    """sha256 of files, and of their names below a folder."""
    return fingerprint([(str(f.relative_to(path)), durable.digest(f)) for f in files])
