"""The special tokens around one text, or two, as the tokenizer's own post-processor puts them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertc.data.vocab.vocabulary import Vocabulary

Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids and segment ids of a run of special tokens."""


@dataclass(frozen=True)
class Template:
    """``before`` A ``after``, or ``before`` A ``between`` B ``behind``; B is segment ``second``."""

    before: Ends
    after: Ends
    between: Ends
    behind: Ends
    second: int
    last: bool
    """Whether the token that stands for the whole is the last one (XLNet)."""

    def specials(self, texts: int) -> int:
        """How many there are around so many texts."""
        ends = (self.before, self.after) if texts == 1 else (self.before, self.between, self.behind)
        return sum(len(ids) for ids, _ in ends)


def template_of(vocabulary: Vocabulary) -> Template:
    """Ask the tokenizer, or take BERT's where it says nothing: [CLS] A [SEP] B [SEP]."""
    tokenizer = vocabulary.tokenizer
    if tokenizer.post_processor is None:
        cls, sep = ((vocabulary.cls,), (0,)), ((vocabulary.sep,), (0,))
        return Template(cls, sep, sep, ((vocabulary.sep,), (1,)), 1, last=False)
    one, two = tokenizer.encode("a"), tokenizer.encode("a", "b")
    before, after = _around(one.ids, one.type_ids, one.sequence_ids, 0)
    _, rest = _around(two.ids, two.type_ids, two.sequence_ids, 0)
    _, behind = _around(two.ids, two.type_ids, two.sequence_ids, 1)
    length = len(rest[0]) - len(behind[0]) - two.sequence_ids.count(1)
    between = (rest[0][:length], rest[1][:length])
    second = two.type_ids[two.sequence_ids.index(1)]
    last = bool(behind[0]) and behind[0][-1] == vocabulary.cls != vocabulary.sep
    return Template(before, after, between, behind, second, last)


def _around(
    ids: list[int], segments: list[int], texts: list[int | None], number: int
) -> tuple[Ends, Ends]:
    """What stands before the first token of a text, and after its last."""
    first = texts.index(number)
    end = len(texts) - texts[::-1].index(number)
    return (
        (tuple(ids[:first]), tuple(segments[:first])),
        (tuple(ids[end:]), tuple(segments[end:])),
    )


def filled(
    template: Template, first: Sequence[int], second: Sequence[int] | None
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """One text or two between their special tokens: token ids and segments of each part."""
    one = first, [0] * len(first)
    if second is None:
        return [template.before, one, template.after]
    two = second, [template.second] * len(second)
    return [template.before, one, template.between, two, template.behind]
