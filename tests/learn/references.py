"""The samplers as the papers tell them: one row, one draw after another, on Python numbers.

Each takes the random numbers it uses, so that it can be held against the vectorised form.
"""

from collections.abc import Sequence

Word = tuple[int, int]


def words_of(ids: Sequence[int], word_start: Sequence[bool], special: Sequence[bool]) -> list[Word]:
    """Begin and end of every word of ordinary tokens."""
    words: list[Word] = []
    for at, token in enumerate(ids):
        if special[token]:
            continue
        fresh = at == 0 or special[ids[at - 1]] or word_start[token]
        words = [*words, (at, at + 1)] if fresh else [*words[:-1], (words[-1][0], at + 1)]
    return words


def whole_words(words: Sequence[Word], order: Sequence[int], budget: int) -> set[int]:
    """Words by the positions of their heads in random order; what does not fit is passed over."""
    chosen: set[int] = set()
    by_head = {word[0]: word for word in words}
    for head in order:
        begin, end = by_head[head]
        if len(chosen) + end - begin <= budget:
            chosen |= set(range(begin, end))
    return chosen


def ngrams(
    words: Sequence[Word], order: Sequence[int], chances: Sequence[float], most: int, budget: int
) -> set[int]:
    """ALBERT's draws: n with weight 1/n, cut at the end of the text, shortened to the budget."""
    chosen: set[int] = set()
    heads = [begin for begin, _ in words]
    for head, chance in zip(order, chances, strict=False):
        first = run = heads.index(head)
        while run + 1 < len(words) and words[run + 1][0] == words[run][1]:
            run += 1
        weights = [1 / n for n in range(1, most + 1)]
        n = next(n for n in range(1, most + 1) if chance * sum(weights) < sum(weights[:n]))
        n = min(n, run + 1 - first)
        while n and len(chosen) + words[first + n - 1][1] - head > budget:
            n -= 1
        tokens = set(range(head, words[first + n - 1][1])) if n else set()
        if not tokens & chosen:
            chosen |= tokens
    return chosen


def spans(
    words: Sequence[Word], anchors: Sequence[int], lengths: Sequence[int], budget: int
) -> set[int]:
    """SpanBERT's draws: from the head of the anchor's word on, token by token to the budget."""
    chosen: set[int] = set()
    for anchor, length in zip(anchors, lengths, strict=True):
        found = [i for i, (begin, end) in enumerate(words) if begin <= anchor < end]
        if anchor in chosen or not found:
            continue
        at = found[0]
        for extra in range(length):
            if extra and (
                at + extra == len(words) or words[at + extra][0] != words[at + extra - 1][1]
            ):
                break
            for token in range(*words[at + extra]):
                if len(chosen) < budget:
                    chosen.add(token)
    return chosen
