"""Facts of text without reading it: sizes of files, manifests of prepared text."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError, Span
from bertc.base.storage.files import is_address
from bertc.base.storage.place import FolderAt
from bertc.ir.data import Corpus, Docstrings, Hf, Prepared, file_names
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage, TaskStage

if TYPE_CHECKING:
    from bertc.cost import Estimate
    from bertc.cost.texts import TextFacts, Weighted


def look_at_text(program: Complete, diagnostics: Diagnostics) -> None:
    """Decode the beginnings of the files of text that a program names, and find their columns."""
    from bertc.text.sources.opening import open_source
    from bertc.text.sources.source import all_of

    def look(corpus: Corpus, span: Span | None) -> list[tuple[Sequence[DataError], Span | None]]:
        names = [name for name, _ in file_names(corpus)]
        here = names and not any(map(is_address, names))
        return [(open_source(corpus).remarks, span)] if here else []

    spans = {s.corpus: stage.span("data") for stage in program.stages for s in stage.data}
    for errors, span in all_of(partial(look, *text) for text in spans.items()):
        remark_on(errors, span, diagnostics)


def remark_on(text: Sequence[DataError], span: Span | None, diagnostics: Diagnostics) -> None:
    """Remark what is wrong with text though it can be read."""
    for error in text:
        diagnostics.remark(Diagnostic("R129", error.message, span, help=error.help))


def add_texts(estimates: "list[Estimate]", programs: Sequence[Resolved]) -> "list[Estimate]":
    """Add the sizes of texts to the estimates of programs."""
    look = cache(_look_at_one)
    return [
        _with_texts(estimate, [_weigh_texts(stage, program, look) for stage in program.stages])
        for estimate, program in zip(estimates, programs, strict=True)
    ]


def _with_texts(estimate: "Estimate", texts: "list[Sequence[Weighted] | None]") -> "Estimate":
    if not any(texts):
        return estimate
    from bertc.cost.texts import data_of

    processes = estimate.spread.devices if estimate.spread else 1
    pairs = [*zip(estimate.stages, texts, strict=True)]
    read = [(s.steps * s.batch * s.seq, s.time.seconds_total, weighted) for s, weighted in pairs]
    stages = (
        stage._replace(data=data_of([reading], processes))
        for stage, reading in zip(estimate.stages, read, strict=True)
    )
    return replace(estimate, stages=tuple(stages), data=data_of(read, processes))


def _weigh_texts(
    stage: Stage, program: Resolved, look: "Callable[[Corpus, int], TextFacts | None]"
) -> "list[Weighted] | None":
    """The texts of a stage with their weights; None where a look does not tell all of them."""
    shares = () if isinstance(stage, TaskStage) else stage.data
    id_bytes = 2 if program.vocabulary.size <= 1 << 16 else 4
    texts = [text for share in shares if (text := look(share.corpus, id_bytes))]
    if len(texts) < len(shares):
        return None
    of_language: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for share, text in zip(shares, texts, strict=True):
        of_language[share.corpus.languages] += share.weight * text.tokens
    return [
        (share.weight * of_language[share.corpus.languages] ** (stage.smoothing - 1), text)
        for share, text in zip(shares, texts, strict=True)
    ]


def _look_at_one(corpus: Corpus, id_bytes: int) -> "TextFacts | None":
    if isinstance(corpus, Docstrings | Hf):
        return None
    from bertc.cost.texts import TextFacts, guess_facts

    try:
        if not isinstance(corpus, Prepared):
            from bertc.text.sources.files import matching_files, unpacked_bytes

            names = [name for name, _ in file_names(corpus)]
            size = sum(unpacked_bytes(matching_files(name)) for name in names)
            return guess_facts(" ".join(names), size, id_bytes)
        from bertc.text.prepared.opening import bytes_of, read_corpus

        prepared = read_corpus(place := FolderAt(corpus.path))
    except (DataError, MissingInputError):  # reported by those who need the text
        return None
    counts, size = prepared.facts["train"], int(prepared.plan.read.get("bytes", 0))
    parts = sorted(bytes_of(part, prepared.plan.dtype) for part in prepared.parts)
    return TextFacts(
        corpus.path, size, counts["tokens"], counts["sentences"], id_bytes,
        counted=True, remote=place.folder is None, cache_bytes=corpus.cache,
        window_bytes=sum(parts[-2 * corpus.window :]),
    )  # fmt: skip
