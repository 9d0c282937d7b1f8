"""F1 of the spans that tags name, as CoNLL's script conlleval counts them."""

from collections.abc import Sequence

Spans = set[tuple[str, int, int]]
"""Kind, first word, last word."""


def span_f1(right: Sequence[tuple[str, ...]], answers: Sequence[tuple[str, ...]]) -> float:
    """Of all sentences together; a span counts where its kind and both its ends are right.

    0 where neither side names one.
    """
    hits = found = wanted = 0
    for right_w, answers_w in zip(right, answers, strict=True):
        assert len(right_w) == len(answers_w), "a tag a word"
        known, said = spans(right_w), spans(answers_w)
        hits += len(known & said)
        found += len(said)
        wanted += len(known)
    return 2 * hits / (found + wanted) if hits else 0.0


def spans(tags: Sequence[str]) -> Spans:
    """The spans in the tags of one sentence.

    Forgiving as conlleval is: ``I-PER`` after a word that is no ``PER`` begins a span. ``E-`` ends
    one and ``S-`` is one; what begins otherwise, ``O`` or nothing at all, is outside of any.
    """
    found: Spans = set()
    part = kind = ""
    first = 0
    for place, tag in enumerate([*tags, "O"]):
        before, kind_before = part, kind
        part, kind = (tag[:1], tag[2:]) if tag[1:2] in ("", "-") else ("", "")
        goes_on = part in ("I", "E") and before in ("B", "I") and kind == kind_before
        if before in ("B", "I", "E", "S") and not goes_on:
            found.add((kind_before, first, place - 1))
        if not goes_on:
            first = place
    return found
