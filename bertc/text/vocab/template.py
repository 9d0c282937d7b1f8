"""The template of special tokens around one text or two, from a tokenizer's post-processor."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertc.base.diagnostics import as_data_error
from bertc.text.vocab.vocabulary import FAILS, Vocabulary

Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids and segment ids of consecutive special tokens."""


@dataclass(frozen=True)
class Template:
    """A template ``before`` A ``after``, or ``before`` A ``between`` B ``behind``."""

    before: Ends
    after: Ends
    between: Ends
    behind: Ends
    second: int
    last: bool
    """True if [CLS] is the last token, as in XLNet."""

    def specials(self, texts: int) -> int:
        """The number of special tokens around 1 or 2 texts."""
        ends = (self.before, self.after) if texts == 1 else (self.before, self.between, self.behind)
        return sum(len(ids) for ids, _ in ends)


def template_of(vocabulary: Vocabulary) -> Template:
    """The template of a tokenizer."""
    tokenizer = vocabulary.tokenizer
    with as_data_error(*FAILS):
        single, pair = tokenizer.encode("a"), tokenizer.encode("a", "b")
    before, after = _around(single.ids, single.type_ids, single.sequence_ids, 0)
    _, rest = _around(pair.ids, pair.type_ids, pair.sequence_ids, 0)
    _, behind = _around(pair.ids, pair.type_ids, pair.sequence_ids, 1)
    length = len(rest[0]) - len(behind[0]) - pair.sequence_ids.count(1)
    between = (rest[0][:length], rest[1][:length])
    second = pair.type_ids[pair.sequence_ids.index(1)]
    return Template(before, after, between, behind, second, vocabulary.cls_last)


def _around(
    ids: list[int], segments: list[int], texts: list[int | None], number: int
) -> tuple[Ends, Ends]:
    first = texts.index(number)
    end = len(texts) - texts[::-1].index(number)
    return (
        (tuple(ids[:first]), tuple(segments[:first])),
        (tuple(ids[end:]), tuple(segments[end:])),
    )


def fill_template(
    template: Template, first: Sequence[int], second: Sequence[int] | None
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Put one text or two into the template: token ids and segment ids, part by part."""
    first_part = first, [0] * len(first)
    if second is None:
        return [template.before, first_part, template.after]
    second_part = second, [template.second] * len(second)
    return [template.before, first_part, template.between, second_part, template.behind]
