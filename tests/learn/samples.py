"""The samplers as the papers tell them, one draw after another, and a batch taken apart.
Each takes the random numbers it uses, so that it can be held against the vectorised form.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bertc.ir.learning.objective import Mlm
from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives import Inputs, VocabTensors
from bertc.learn.objectives.draws import below, bits, order_keys, unit
from bertc.learn.objectives.text import choice, spans as drawing

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
            place = at + extra
            if extra and (place == len(words) or words[place][0] != words[place - 1][1]):
                break
            for token in range(*words[at + extra]):
                if len(chosen) < budget:
                    chosen.add(token)
    return chosen


@dataclass(frozen=True)
class Sample:
    """Rows, and what the samplers are given for them."""

    inputs: Inputs
    objective: Mlm
    text: choice.Text
    words: choice.Words
    budget: torch.Tensor
    words_of_row: list[list[Word]]

    @property
    def seq(self) -> int:
        return self.inputs.token_ids.shape[1]

    @property
    def predictions(self) -> int:
        return self.objective.predictions(self.seq)

    def bits(self, key: int, lanes: int) -> torch.Tensor:
        return bits(key, self.inputs.copies, self.inputs.example_ids, lanes)

    def whole_words(self) -> torch.Tensor:
        drawn = self.bits(1, self.seq)
        return choice.choose_words(self.words, drawn, self.budget, self.predictions)

    def ngram_chances(self, most: int) -> torch.Tensor:
        return self.bits(2, drawing.ngram_draws(most, self.objective.p, self.predictions))

    def ngrams(self, most: int) -> torch.Tensor:
        order, chances = self.bits(1, self.seq), self.ngram_chances(most)
        return drawing.choose_ngrams(most, self.words, self.text, order, chances, self.budget)

    def span_bits(self, span: SpanUnit) -> tuple[torch.Tensor, torch.Tensor]:
        draws = drawing.span_draws(span, self.objective.p, self.predictions)
        return self.bits(3, draws), self.bits(4, draws)

    def span_draws(self, span: SpanUnit) -> tuple[list[list[int]], list[list[int]]]:
        """Anchors and lengths of every row."""
        anchor_bits, length_bits = self.span_bits(span)
        anchors = below(anchor_bits, self.inputs.lengths[:, None])
        thresholds = torch.tensor(drawing.lengths_below(span)[:-1])
        lengths = 1 + (unit(length_bits)[..., None] >= thresholds).sum(2)
        return anchors.tolist(), lengths.tolist()

    def spans(self, span: SpanUnit) -> torch.Tensor:
        draws = self.span_bits(span)
        keys = drawing.span_keys(span, self.words, self.text, self.inputs.lengths, *draws)
        positions = choice.lowest(keys, self.budget, self.predictions)
        marks = torch.zeros(len(keys), self.seq + 1, dtype=torch.bool)
        return marks.scatter_(1, positions, True)[:, : self.seq]


def sample(inputs: Inputs, p: float, known: VocabTensors) -> Sample:
    """Rows taken apart for masking at rate ``p``."""
    objective = Mlm(p=p)
    real = torch.arange(inputs.token_ids.shape[1]) < inputs.lengths[:, None]
    text = choice.find_text(inputs.token_ids, real, known)
    most = objective.predictions(inputs.token_ids.shape[1])
    zeros = torch.zeros_like(inputs.lengths)
    budget = choice.counts(objective.count, objective.p, inputs.lengths, text, zeros, most)
    starts, special = known.word_start.tolist(), known.special.tolist()
    rows = zip(inputs.token_ids.tolist(), inputs.lengths.tolist(), strict=True)
    return Sample(
        inputs, objective, text, choice.find_words(inputs.token_ids, text, known), budget,
        [words_of(ids[:length], starts, special) for ids, length in rows],
    )  # fmt: skip


def draw_order(case: Sample, row: int) -> list[int]:
    """Heads of the words of a row in the order they are drawn."""
    keys = order_keys(case.bits(1, case.seq), case.words.heads)[row]
    return keys.argsort()[: int(case.words.heads[row].sum())].tolist()
