"""Spans of tags, as CoNLL's script conlleval counts them."""

from collections.abc import Sequence

Spans = set[tuple[str, int, int]]
"""Spans of a sentence: kind, index of the first word, index of the last."""


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
