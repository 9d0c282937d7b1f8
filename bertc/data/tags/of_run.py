"""The tags that the stages of a run read."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertc.data.batches.arranged import TextData, Tokenised
from bertc.data.batches.smoothing import orders_of, texts_of
from bertc.data.cache.progress import Progress
from bertc.data.examples.task_data import TaskData
from bertc.data.examples.word_networks import WordNetworks
from bertc.data.rows.codes import Tagged, TextTags
from bertc.data.sources.source import CorpusText, TextSource
from bertc.data.tags.tagged import counts_by_tag, refuse_nothing_found, share_of, tag
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.diagnostics import DataError
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.taggers import replaces_by_tag, taggers
from bertc.ir.terms.masking import is_span_file


def tag_texts(
    resolved: Resolved,
    sources: dict[CorpusText, TextSource],
    tokenised: dict[CorpusText, Tokenised],
    vocabulary: Vocabulary,
    cache: Path,
    networks: WordNetworks,
    progress: Progress,
) -> Tagged:
    """The tags of every text by every tagger that reads it.

    Raises:
        MissingInputError, DataError: as the taggers.
    """
    tagged: dict[tuple[str, CorpusText], TextTags] = {}
    for stage in resolved.stages:
        texts = [text for _, text in texts_of(stage)]
        for name, labels in taggers(stage).items():
            if is_span_file(name) and (len(set(texts)) > 1 or texts[0].paired):
                raise DataError(
                    f"{name} has the spans of one text, and stage {stage.name} reads several",
                    help="join them in one corpus, or name the run of a tagger",
                )
            for text in texts:
                if (name, text) not in tagged:
                    tokens = tokenised[text]
                    tagged[name, text] = tag(
                        sources[text],
                        (tokens.name, tokens.train, tokens.heldout),
                        name,
                        vocabulary,
                        resolved.run.holdout,
                        cache,
                        networks,
                        progress,
                    )
            spans = [tagged[name, text] for text in texts]
            refuse_nothing_found(name, labels, spans)
            if labels:
                progress.note(f"masked of what {name} found: {share_of(labels, spans)}")
    return tagged


def by_tag(
    resolved: Resolved,
    tokenised: dict[CorpusText, Tokenised],
    tagged: Tagged,
    read: Sequence[TextData | TaskData],
    vocabulary: Vocabulary,
) -> NDArray[np.float64]:
    """Frequencies (t, v) of tokens under each tag by which tokens are replaced; else (0, v)."""
    total: NDArray[np.float64] = np.zeros((0, vocabulary.size))
    for stage, data in zip(resolved.stages, read, strict=True):
        name = replaces_by_tag(stage)
        if not name or isinstance(data, TaskData):
            continue
        for (_, text, _), weight in zip(orders_of(stage), data.weights, strict=True):
            counts = counts_by_tag(tokenised[text].train, tagged[name, text], vocabulary)
            drawn_tv = weight * stage.steps * stage.tokens_per_step * counts.astype(np.float64)
            total = total + drawn_tv if len(total) else drawn_tv
    return total / total.sum() if len(total) else total
