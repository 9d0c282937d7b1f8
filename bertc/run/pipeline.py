"""The end of a datatrove pipeline: its documents become prepared text, a part for each task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bertc.base.storage.paths import cache_folder
from bertc.base.storage.place import FolderAt
from bertc.data.cache.store import Silent
from bertc.data.prepared.making import begin_preparing, make_parts
from bertc.data.sources.source import Piece, TextSource, pieces_of_text
from bertc.ir.data import Files, Hf, Sentences
from bertc.ir.program.resolved import Resolved


@dataclass(frozen=True)
class PreparedWriter:
    """The last step of a pipeline: task r of w prepares its documents as part r of w at ``to``.

    ``resolved`` names the tokenizer, the rows and ``clean``; of its data the way to split sentences
    is used, no text. A part that is there is not made again, so tasks may be killed and repeated.
    When all tasks are done, ``bertc prepare --to ... --finish`` writes the manifest.

    Raises:
        UsageError: the vocabulary is one to learn.
        DataError: another preparation is at ``to``, or one of other tasks.
    """

    resolved: Resolved = field(repr=False)
    to: str

    def __call__(self, data: Iterable[Any] | None, rank: int = 0, world_size: int = 1) -> None:
        """Prepare the documents of a task."""
        corpora = [share.corpus for stage in self.resolved.stages for share in stage.data]
        texts = (text.sentences for text in corpora if isinstance(text, Files | Hf))
        split: Sentences = next(texts, "split")
        part = TextSource(
            name="documents of a pipeline",
            identity=("pipeline", world_size, split),
            sentences=split,
            total=0,
            unit="rows",
            text_bytes=0,
            read=partial(_pieces, data or ()),
        )
        source = replace(part, parts=(part,) * world_size)
        place = FolderAt(self.to)
        work = begin_preparing(self.resolved, place, cache_folder(), Silent(), "", source)
        make_parts(work, work.plan.parts[rank : rank + 1], Silent())


def _pieces(documents: Iterable[Any]) -> Iterator[Piece]:
    for document in documents:
        yield from pieces_of_text(document.text, 1)
