"""Text of a run as it was prepared, if it still stands in the cache: nothing is made anew."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bertc.data import PreparedCorpus, prepare
from bertc.data.rows.tokens import Tokens
from bertc.diagnostics import MissingInputError
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import TextStage
from bertc.tokenizer_files.reading import tokenizer_folder


class _NothingNew:
    """Progress that ends a preparation as soon as it would work."""

    def begin(self, task: str, total: int, unit: str) -> None:
        raise MissingInputError(
            "the text of this run is not in the cache, or it has changed",
            help="BERTC_CACHE names another cache; training on the same text prepares it again",
        )

    def advance(self, amount: int) -> None:
        """Ignore it."""

    def end(self) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        """Ignore it."""


def prepared_text(resolved: Resolved, run: Path, cache: Path) -> PreparedCorpus | None:
    """The text of a run from the cache; None for a run on tasks alone.

    ``run`` is its folder, whose vocabulary it was read by.

    Raises:
        MissingInputError: if it is not there as prepared.
        DataError: if a source cannot be used.
    """
    stages = tuple(stage for stage in resolved.stages if isinstance(stage, TextStage))
    if not stages:
        return None
    on_text = resolved.model_copy(update={"stages": stages})
    return prepare(on_text, cache, _NothingNew(), learned=tokenizer_folder(run))


def sentences(tokens: Tokens, most: int) -> Iterator[list[int]]:
    """Token ids of up to ``most`` sentences, from all over a part."""
    ends = {int(last) for last in tokens.documents[1:]}
    count = len(tokens.sentences) - 1
    for number in np.unique(np.linspace(0, count - 1, min(most, count)).astype(int)).tolist():
        # The last sentence of a document is followed by a separator.
        end = int(tokens.sentences[number + 1]) - (number + 1 in ends)
        yield tokens.ids[int(tokens.sentences[number]) : end].tolist()
