"""One batch taken apart: its words, its budgets and the random numbers its masks are made of."""

from dataclasses import dataclass

import torch

from bertc.ir.learning.objective import Mlm
from bertc.ir.terms.masking import SpanUnit
from bertc.learn.objectives import Inputs, VocabTensors
from bertc.learn.objectives.draws import below, bits, order_keys, unit
from bertc.learn.objectives.text import choice
from bertc.learn.objectives.text.spans import (
    choose_ngrams,
    lengths_below,
    ngram_draws,
    span_draws,
    span_keys,
)
from tests.learn.references import Word, words_of


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
        return self.bits(2, ngram_draws(most, self.objective.p, self.predictions))

    def ngrams(self, most: int) -> torch.Tensor:
        order, chances = self.bits(1, self.seq), self.ngram_chances(most)
        return choose_ngrams(most, self.words, self.text, order, chances, self.budget)

    def span_bits(self, span: SpanUnit) -> tuple[torch.Tensor, torch.Tensor]:
        draws = span_draws(span, self.objective.p, self.predictions)
        return self.bits(3, draws), self.bits(4, draws)

    def span_draws(self, span: SpanUnit) -> tuple[list[list[int]], list[list[int]]]:
        """Anchors and lengths of every row."""
        anchor_bits, length_bits = self.span_bits(span)
        anchors = below(anchor_bits, self.inputs.lengths[:, None])
        thresholds = torch.tensor(lengths_below(span)[:-1])
        lengths = 1 + (unit(length_bits)[..., None] >= thresholds).sum(2)
        return anchors.tolist(), lengths.tolist()

    def spans(self, span: SpanUnit) -> torch.Tensor:
        draws = self.span_bits(span)
        keys = span_keys(span, self.words, self.text, self.inputs.lengths, *draws)
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
