"""Facts of text without reading it: sizes of files, manifests of prepared text."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.ir.data import Corpus, Files, Parallel, Prepared, named_files
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage, TaskStage

if TYPE_CHECKING:
    from bertc.cost import Estimate
    from bertc.cost.texts import TextFacts, TextShare


def with_texts(estimates: "list[Estimate]", programs: Sequence[Resolved]) -> "list[Estimate]":
    """Add the sizes of texts to the estimates of programs."""
    look = cache(_looked_at)
    return [
        _with_texts(one, program, partial(look, vocabulary=program.vocabulary.size))
        for one, program in zip(estimates, programs, strict=True)
    ]


def _with_texts(
    estimate: "Estimate", program: Resolved, look: "Callable[[Corpus], TextFacts | None]"
) -> "Estimate":
    texts = [_shares(stage, look) for stage in program.stages]
    if not any(texts):
        return estimate
    from bertc.cost.texts import Reading, data_of

    processes = estimate.spread.devices if estimate.spread else 1
    read = [
        Reading(stage.steps * stage.batch * stage.seq, stage.time.seconds_total, of)
        for stage, of in zip(estimate.stages, texts, strict=True)
    ]
    stages = (
        stage._replace(data=data_of([one], processes))
        for stage, one in zip(estimate.stages, read, strict=True)
    )
    return replace(estimate, stages=tuple(stages), data=data_of(read, processes))


def _shares(stage: Stage, look: "Callable[[Corpus], TextFacts | None]") -> "list[TextShare] | None":
    """The texts of a stage with their weights; None where a look does not tell all of them."""
    data = () if isinstance(stage, TaskStage) else stage.data
    shares = list["TextShare"]()
    languages: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for share in data:
        if (text := look(share.corpus)) is None:
            return None
        shares.append((share.weight, text))
        languages[share.corpus.languages] += share.weight * text.tokens
    of = [languages[share.corpus.languages] for share in data]
    return [(w * n ** (stage.smoothing - 1), text) for n, (w, text) in zip(of, shares, strict=True)]


def _looked_at(corpus: Corpus, vocabulary: int) -> "TextFacts | None":
    try:
        match corpus:
            case Files() | Parallel():
                return _sizes([name for name, _ in named_files(corpus)], vocabulary)
            case Prepared():
                return _manifest(corpus, vocabulary)
            case _:
                return None
    except (DataError, MissingInputError):  # reported by those who need the text
        return None


def _sizes(names: list[str], vocabulary: int) -> "TextFacts":
    from bertc.cost.texts import unread
    from bertc.data.sources.files import matching_files, unpacked_bytes

    text_bytes = sum(unpacked_bytes(matching_files(name)) for name in names)
    return unread(" ".join(names), text_bytes, vocabulary)


def _manifest(text: Prepared, vocabulary: int) -> "TextFacts":
    from bertc.base.storage.place import FolderAt
    from bertc.cost.texts import TextFacts, prepared_bytes
    from bertc.data.prepared.manifest import read_corpus

    place = FolderAt(text.path)
    corpus = read_corpus(place)
    counts = corpus.facts["train"]
    return TextFacts(
        name=text.path,
        text_bytes=int(corpus.plan.read.get("bytes", 0)),
        tokens=max(1, counts["tokens"]),
        prepared_bytes=prepared_bytes(counts["tokens"], counts["sentences"], vocabulary),
        counted=True,
        remote=place.folder is None,
        cache_bytes=text.cache,
    )
