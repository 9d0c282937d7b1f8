"""Spans from a file, stood beside the tokens: masked whole, filtered by label, drawn by tag."""

import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from bertc.data import RawBatch
from bertc.data.rows.codes import LABEL_BITS
from bertc.data.sources.sentences import split_sentences
from bertc.data.tags.span_file import in_sentences
from bertc.data.tags.spans import Span
from bertc.diagnostics import DataError, MissingInputError
from bertc.objectives import corrupt
from bertc.step.feed import to_inputs
from bertc.step.vocabulary import vocab_tensors
from tests.data.conftest import Make, document

FORMAT = "format=full-sentences batch=16"
KINDS = {"BIRDS": r"(hen|duck|goose)( (hen|duck|goose))*", "PLACE": r"barn|yard|lake"}
Spans = list[tuple[int, int, str]]


def spans_of(text: str) -> Spans:
    """Runs of birds, and places."""
    matches = ((m.span(), kind) for kind, form in KINDS.items() for m in re.finditer(form, text))
    return sorted((begin, end, kind) for (begin, end), kind in matches)


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spans of the farm; a line says how its document begins."""
    path = tmp_path_factory.mktemp("spans") / "farm.jsonl"
    texts = (document(n, 1 + n % 30) for n in range(60))
    lines = ({"begins": text[:9], "spans": spans_of(text)} for text in texts)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def unit(path: Path, rest: str = "", vocab: str = "wordpiece(400)", seq: int = 48) -> str:
    return f'{FORMAT} vocab={vocab} seq={seq} objective=mlm(unit=tagged("{path}"{rest}))'


def runs(codes: np.ndarray) -> list[tuple[int, int, int]]:
    """Label, begin and end of each run of one code."""
    found, begin = [], 0
    for code, run in groupby(codes.tolist()):
        end = begin + len(list(run))
        found += [(code & LABEL_BITS, begin, end)] if code else []
        begin = end
    return found


@pytest.mark.parametrize("vocab", ["wordpiece(400)", "bpe(400)", "bytes"])
def test_tokens_of_a_span_have_its_code(made: Make, spans: Path, vocab: str) -> None:
    """A span's tokens spell what the file names; with words that are cut at the ends of rows."""
    corpus = made(unit(spans, vocab=vocab, seq=96))
    data, tokenizer = corpus.stage(0), corpus.vocabulary.tokenizer
    batch = data.train(0)
    whole = 0
    for ids, codes, length in zip(batch.token_ids, batch.spans, batch.lengths, strict=True):
        text = tokenizer.decode(ids[1 : length - 1].tolist())
        assert not codes[0]
        assert not codes[length - 1 :].any()
        labelled = [(data.labels.names[label - 1], tokenizer.decode(ids[b:e].tolist()).strip())
                    for label, b, e in runs(codes)]  # fmt: skip
        expected = [(kind, text[begin:end]) for begin, end, kind in spans_of(text)]
        assert labelled[1:-1] == expected[1:-1]
        whole += len(expected)
    assert whole > 60


def masked(corpus: object, batch: RawBatch) -> tuple[np.ndarray, np.ndarray]:
    """Marks on the predicted tokens, and the number wanted in each row."""
    stage = corpus.resolved.stages[0]
    vocab = vocab_tensors(corpus.vocabulary, torch.device("cpu"))
    inputs = to_inputs(batch, torch.device("cpu"))
    own = corrupt(stage, inputs, vocab, 7).terms["mlm"]
    marks = torch.zeros_like(inputs.token_ids).scatter_add_(1, own.positions, own.weights.long())
    return marks.numpy() > 0, np.round(batch.lengths * 0.15).astype(int)


def test_spans_are_masked_whole_and_the_budget_is_kept(made: Make, spans: Path) -> None:
    corpus = made(unit(spans, ", share=1"))
    cut = complete = 0
    for step in range(12):
        batch = corpus.stage(0).train(step)
        marks, budget = masked(corpus, batch)
        assert (marks.sum(1) <= budget).all()
        assert marks.sum() >= 0.99 * budget.sum()
        for codes, of_row in zip(batch.spans, marks, strict=True):
            for _, begin, end in runs(codes):
                complete += of_row[begin:end].all()
                cut += of_row[begin:end].any() and not of_row[begin:end].all()
    assert complete > 500
    assert cut <= 0.01 * complete


def test_half_of_the_draws_are_words(made: Make, spans: Path) -> None:
    shares = []
    for rest in ("", ", share=1"):
        corpus = made(unit(spans, rest))
        batch = corpus.stage(0).train(0)
        marks, _ = masked(corpus, batch)
        shares.append((batch.spans[marks] > 0).mean())
    assert shares[0] < 0.8 < 0.95 < shares[1]


def test_labels_are_chosen(made: Make, spans: Path) -> None:
    batch = made(unit(spans, ', labels=["PLACE"]')).stage(0).train(0)
    assert set((batch.spans & LABEL_BITS).flat) == {0, 2}
    with pytest.raises(DataError, match="no label ANIMAL: it has BIRDS, PLACE"):
        made(unit(spans, ', labels=["ANIMAL"]'))


def test_stand_ins_have_the_tag_of_the_original(made: Make, spans: Path) -> None:
    corpus = made(
        f'{FORMAT} seq=48 vocab=wordpiece(400) objective=rtd(p=50%) generator=same-tag("{spans}")'
    )
    by_tag = corpus.vocabulary.by_tag
    assert by_tag.sum() == pytest.approx(1)
    assert by_tag.sum(0) / by_tag.sum() == pytest.approx(corpus.vocabulary.unigram)
    batch, vocab = corpus.stage(0).train(0), vocab_tensors(corpus.vocabulary, torch.device("cpu"))
    inputs = to_inputs(batch, torch.device("cpu"))
    reading = corrupt(corpus.resolved.stages[0], inputs, vocab, 7).reading
    changed = reading.token_ids != inputs.token_ids
    tags = batch.tags[changed.numpy()] & LABEL_BITS
    assert {0, 1, 2} == set(tags.tolist())
    assert (by_tag[tags, reading.token_ids[changed].numpy()] > 0).all()


def test_the_data_are_others_when_the_spans_are(made: Make, spans: Path, tmp_path: Path) -> None:
    plain = made(f"{FORMAT} seq=48 vocab=wordpiece(400) objective=mlm").fingerprint
    first = made(unit(spans)).fingerprint
    other = tmp_path / "other.jsonl"
    other.write_text(spans.read_text().replace("PLACE", "SPOT"))
    assert len({plain, first, made(unit(other)).fingerprint}) >= 2
    moved = tmp_path / "moved.jsonl"
    moved.write_text(spans.read_text())
    assert made(unit(moved)).fingerprint == first


Change = Callable[[list[str]], list[str]]
BAD: dict[str, tuple[Change, str]] = {
    "no json": (lambda all: ["{", *all[1:]], "jsonl:1: no JSON object"),
    "no list": (lambda all: [*all[:3], '{"begins": ""}', *all[4:]], "4: no object with a list"),
    "no span": (lambda all: ['{"spans": [[3, 3, "X"]]}', *all[1:]], r"\[3, 3, \"X\"\] is no"),
    "overlap": (lambda all: ['{"spans": [[0, 9, "X"], [3, 4, "Y"]]}', *all[1:]], "Y .3, 4. begins"),
    "outside": (lambda all: ['{"spans": [[0, 9999, "X"]]}', *all[1:]], "outside of document 1"),
    "too few": (lambda all: all[:-1], "spans of 59 documents, the corpus has more"),
    "too many": (lambda all: [*all, all[0]], "there are only 60 documents"),
    "of another": (lambda all: [all[1], all[0], *all[2:]], "the document begins 'D0 s0"),
    "none": (lambda all: ['{"spans": []}'] * 60, "found no span in the text of this run"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_do_not_fit_are_refused(
    made: Make, spans: Path, tmp_path: Path, name: str
) -> None:
    change, message = BAD[name]
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(change(spans.read_text().splitlines())) + "\n")
    with pytest.raises(DataError, match=message) as refused:
        made(unit(bad))
    assert refused.value.help


def test_a_file_is_of_one_text(made: Make, farm: Path, spans: Path) -> None:
    with pytest.raises(DataError, match="spans of one text, and stage main reads several"):
        made(unit(spans), data=f'files("{farm}") + docstrings([json])')
    with pytest.raises(MissingInputError, match="nowhere.jsonl"):
        made(unit(spans.parent / "nowhere.jsonl"))


def test_a_span_over_sentences_is_cut_and_white_space_does_not_count() -> None:
    text = "Hens  of the\nred barn.\n\n  Old ducks quack."
    sentences = split_sentences(text, "split")
    placed = in_sentences(text, sentences, [Span(6, 17, "A"), Span(18, 31, "B"), Span(36, 43, "C")])
    shown = [[(s[b:e], label) for b, e, label in each]
             for s, each in zip(sentences, placed, strict=True)]  # fmt: skip
    assert shown == [[("of the red", "A"), ("arn.", "B")], [("Old d", "B"), ("quack.", "C")]]
