"""F1 of tagged spans, counted as by CoNLL's script conlleval."""

from collections.abc import Sequence

Spans = set[tuple[str, int, int]]
"""Spans of a sentence: kind, index of the first word, index of the last."""


def span_f1(right: Sequence[tuple[str, ...]], answers: Sequence[tuple[str, ...]]) -> float:
    """F1 of all sentences; a span counts if kind and both ends are right. 0 without spans."""
    hits = predicted = gold = 0
    for right_w, answers_w in zip(right, answers, strict=True):
        assert len(right_w) == len(answers_w), "a tag a word"
        gold_spans, predicted_spans = spans(right_w), spans(answers_w)
        hits += len(gold_spans & predicted_spans)
        predicted += len(predicted_spans)
        gold += len(gold_spans)
    return 2 * hits / (predicted + gold) if hits else 0.0


def spans(tags: Sequence[str]) -> Spans:
    """The spans in the tags of a sentence, IOB, BIO or BIOES, as lenient as conlleval."""
    complete: Spans = set()
    part = kind = ""
    first = 0
    for place, tag in enumerate([*tags, "O"]):
        before, kind_before = part, kind
        part, kind = (tag[:1], tag[2:]) if tag[1:2] in ("", "-") else ("", "")
        goes_on = part in ("I", "E") and before in ("B", "I") and kind == kind_before
        if before in ("B", "I", "E", "S") and not goes_on:
            complete.add((kind_before, first, place - 1))
        if not goes_on:
            first = place
    return complete
