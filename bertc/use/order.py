"""``bertc inspect documents``: the documents that the steps of a run read, in their order."""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from bertc.base.diagnostics import UsageError
from bertc.base.storage.paths import cache_folder
from bertc.ir.data import Prepared
from bertc.machine.display import watching
from bertc.machine.signals import AGAIN
from bertc.run.evaluation.open_run import read_text
from bertc.run.records.folder import RunFolder
from bertc.tasks.corpus import PreparedCorpus
from bertc.text.batches.order import orders_of
from bertc.text.batches.stage import StageData
from bertc.text.sources.source import CorpusText

SHOWS = "bertc show-batch RUN --step N shows what a step reads"
DocumentStarts = Callable[[int, int, int], list[int]]
"""The starts of the documents of a shard, by stage, source and shard, and the end of the last."""


def read_order(run: Path, first: int, end: int, write: Callable[[str], object]) -> None:
    """Write a JSON line for every run of tokens of a document that steps read.

    ``tokens`` are the first and the end of them among the ids of the shard: a part of prepared
    text, or a folder of the cache, made from ``files``; ``document`` is its number there, of those
    to train on.
    """
    folder = RunFolder(run)
    resolved = folder.read_resolved()
    steps = folder.fix_steps(resolved).steps
    if not 0 <= first < end <= steps:
        message = f"the run has steps 0 to {steps - 1:,}, not {first:,} up to {end:,}"
        raise UsageError(message, f"--steps 0:{steps} lists all")
    with watching(AGAIN) as watched:
        corpus = read_text(folder, resolved, cache_folder(), watched)

        @lru_cache(64)
        def documents(stage: int, source: int, shard: int) -> list[int]:
            data = corpus.stages[stage]
            assert isinstance(data, StageData), "its rows are listed"
            tokens = data.train_sources[source].copies[0].shards[shard].opened()
            return [int(start) for start in tokens.sentences[tokens.documents].tolist()]

        names = {
            text: text.corpus.path if isinstance(text.corpus, Prepared) else known.facts["name"]
            for text, known in corpus.tokenised.items()
        }
        watched.begin("listing what is read", end - first, "steps")
        for step in range(first, end):
            for line in _lines(corpus, documents, names, step):
                write(json.dumps(line) + "\n")
            watched.advance(1)
        watched.end()


def _lines(
    corpus: PreparedCorpus, documents: DocumentStarts, names: dict[CorpusText, str], step: int
) -> Iterator[dict[str, object]]:
    stage = corpus.resolved.stage_at(step)
    index = corpus.resolved.stages.index(stage)
    data = corpus.stages[index]
    if not isinstance(data, StageData):
        what = "examples of tasks" if stage.tasks else f"running text (format={stage.format.kind})"
        raise UsageError(f"stage {stage.name} reads {what}, not rows of documents", SHOWS)
    texts = [names[text] for _, text, _ in orders_of(stage)]
    lines = list[tuple[int, dict[str, object]]]()
    for read in data.origins(stage.first_batch + step - stage.first_step):
        shard = data.train_sources[read.source].copies[0].shards[read.shard]
        starts = documents(index, read.source, read.shard)
        for (a, b, *counts, _), row in zip(read.examples.tolist(), read.rows.tolist(), strict=True):
            for begin, count in zip((a, b), counts, strict=True):
                for document, first, end in _spans(starts, begin, count):
                    where = {"source": texts[read.source], "shard": shard.title or shard.name}
                    where |= {"files": shard.files} if shard.files else {}
                    place = {"document": document, "tokens": [first, end]}
                    lines.append((row, {"step": step, "row": row, **where, **place}))
    yield from (line for _, line in sorted(lines, key=itemgetter(0)))


def _spans(starts: list[int], begin: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The document, first token and end of each part of a text, which repeats past the end."""
    while count > 0:
        begin %= starts[-1]
        document = bisect_right(starts, begin) - 1
        end = min(begin + count, starts[document + 1])
        yield document, begin, end
        begin, count = end, count - (end - begin)
