"""Replaced tokens: their choice, and the losses of detecting them and of restoring the originals.

Axes: b rows, s positions of a row, k replacements of a row, p predictions: s or k, n = b*p.
"""

from typing import Literal, TypeVar, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir import address
from bertc.ir.network import generator
from bertc.ir.terms.rtd import ReplacedText, Restore, Rtd
from bertc.learn.objectives import term
from bertc.learn.objectives.draws import bits, unit64
from bertc.learn.objectives.targets import MicroBatch, ReplacedTokens, scatter_tokens
from bertc.learn.objectives.text.mlm import random_tokens
from bertc.model import EncoderInputs, gather_positions, restarting_positions
from bertc.model.heads import CopyingTokenHead, Detector

ReplacedNodeT = TypeVar("ReplacedNodeT", bound=ReplacedText)


class ReplacedTextTensors(term.TermTensors[ReplacedNodeT, ReplacedTokens, term.HeadT]):
    """A term on text in which tokens were replaced by guesses."""

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, ReplacedTokens]:
        """Positions to replace; replacements too, unless a network samples them."""
        masks = rows.hidden
        assert masks is not None, "masked positions are replaced"
        key, inputs = address.key(rows.key, "replacement"), rows.inputs
        bits_bs = bits(key, inputs.copies, inputs.example_ids, inputs.token_ids.shape[1])
        bits_bk = bits_bs.gather(1, masks.positions)  # by position, so duplicates agree
        classified = rows.real.float() if self.node.over == "all" else masks.weights
        targets = ReplacedTokens(masks.positions, masks.weights, unit64(bits_bk), classified)
        return with_replacements(rows, masks.positions, bits_bk), targets

    def weights(self, targets: ReplacedTokens) -> Tensor:
        """1 where a token is classified or predicted, else 0; (b, s) or (b, k)."""
        return targets.classified

    def chances(self, targets: ReplacedTokens) -> Tensor:
        return targets.chances

    def take_guesses(
        self, targets: ReplacedTokens, batch: MicroBatch, guesses_bk: Int[Tensor, "b k"]
    ) -> EncoderInputs:
        """Inputs with the guesses at the chosen positions; the first token of a row stays."""
        ids_bs = scatter_tokens(batch.originals, targets.positions, guesses_bk)
        return batch.reading._replace(token_ids=ids_bs)

    def marks(self, targets: ReplacedTokens, row: int) -> set[int]:
        return term.marked(targets.positions, targets.weights, row)


class RtdTensors(ReplacedTextTensors[Rtd, Detector]):
    """Binary classification of every token: original or replaced."""

    def positions(self, targets: ReplacedTokens, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions (b, k) of the chosen tokens, with first ones; None: all are classified."""
        if self.node.over == "all":
            return None
        if not self.node.add_cls:
            return (targets.positions,)
        first_bs = _first_positions(batch).expand(len(targets.positions), -1)
        return targets.positions, first_bs.gather(1, targets.positions)

    def score(self, targets: ReplacedTokens, read: term.HeadInput[Detector]) -> term.Predicted:
        logits_bs = read.head(read.states[0], self._first(read.states, read.batch)).float()
        replaced_bs = read.batch.reading.token_ids != read.batch.originals
        if self.node.over == "masked":
            replaced_bs = replaced_bs.gather(1, targets.positions)
        labels_bs = replaced_bs.float()
        losses_bs = F.binary_cross_entropy_with_logits(logits_bs, labels_bs, reduction="none")
        return term.Predicted(losses_bs, (logits_bs > 0) == replaced_bs, labels=labels_bs)

    def explain(self, targets: ReplacedTokens, view: term.RowView) -> list[tuple[str, str]]:
        replaced = self.marks(targets, view.row)
        classified = int(targets.classified[view.row].sum())
        changed = sum(view.seen[place] != view.original[place] for place in replaced)
        guessed = view.batch.masked is not None
        what = f"{len(replaced)} by a generator's guesses" if guessed else f"{changed} by another"
        return [("rtd", f"{classified} tokens classified, replaced: {what}")]

    def _first(self, states: tuple[Tensor, ...], batch: MicroBatch) -> Tensor | None:
        """States of the first tokens of examples, if the head adds them; None: of the row's."""
        if self.node.over == "masked":
            return states[1] if self.node.add_cls else None
        if not self.node.add_cls or batch.reading.sequence_ids is None:
            return None
        return gather_positions(states[0], _first_positions(batch))


class RestoreTensors(
    ReplacedTextTensors[Restore, nn.Module], term.TokenTensors[Restore, ReplacedTokens, nn.Module]
):
    """The original of each replaced token, or of all tokens."""

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, ReplacedTokens]:
        reading, where = super().targets(rows)
        ids_bs = rows.inputs.token_ids
        originals_bp = ids_bs if self.node.over == "all" else ids_bs.gather(1, where.positions)
        return reading, where._replace(targets=originals_bp)

    def positions(self, targets: ReplacedTokens, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions (b, k) of the chosen tokens; None: all are predicted."""
        return None if self.node.over == "all" else (targets.positions,)

    def score(self, targets: ReplacedTokens, read: term.HeadInput[nn.Module]) -> term.Predicted:
        """Scores over the vocabulary, of all tokens mixed with a copy of the input."""
        assert targets.targets is not None, "the originals are its targets"
        by_head = term.token_losses(read.states[0], targets.targets, read.head, read.network)
        if not isinstance(read.head, CopyingTokenHead):
            return by_head
        same_n = (read.batch.reading.token_ids == targets.targets).reshape(-1)
        copies_n = read.head.copy(read.states[0]).float().reshape(-1)
        losses_n = copied_losses(by_head.losses, copies_n, same_n)
        return term.Predicted(losses_n, torch.where(copies_n > 0, same_n, by_head.hits))

    def explain(self, targets: ReplacedTokens, view: term.RowView) -> list[tuple[str, str]]:
        predicted = int(targets.classified[view.row].sum())
        replaced = len(self.marks(targets, view.row))
        return [("restore", f"{predicted} predicted, {replaced} replaced")]


def copied_losses(
    losses_n: Float[Tensor, "n"], copies_n: Float[Tensor, "n"], same_n: Bool[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """-log(c [input is the original] + (1 - c) q) of -log q, c the sigmoid of ``copies`` (n,)."""
    other_n = losses_n - F.logsigmoid(-copies_n)
    either_n = -torch.logaddexp(F.logsigmoid(copies_n), -other_n)
    return torch.where(same_n, either_n, other_n)


def _first_positions(batch: MicroBatch) -> Int[Tensor, "#b s"]:
    """The position of the first token of each token's example."""
    tokens_bs, numbers_bs = batch.originals, batch.reading.sequence_ids
    if numbers_bs is None:
        return torch.zeros_like(tokens_bs[:1])
    lane_s = torch.arange(tokens_bs.shape[1], device=tokens_bs.device)
    return lane_s - restarting_positions(numbers_bs)


def with_replacements(
    rows: term.TextRows, positions_bk: Int[Tensor, "b k"], bits_bk: Int[Tensor, "b k"]
) -> EncoderInputs:
    """The inputs with tokens replaced at random; unchanged where a network samples them."""
    if rows.stage.sampled is not None:
        return rows.reading
    match rows.stage.replacements:
        case generator.UnigramGenerator():
            source: Literal["corpus", "ordinary"] = "corpus"
        case generator.RandomGenerator():
            source = "ordinary"
        case generator.NoGenerator() | generator.GeneratorNetwork():
            raise AssertionError("the checks see to a source of random tokens")
        case unreachable:
            assert_never(unreachable)
    random_bk = random_tokens(source, rows.vocab, bits_bk)
    ids_bs = scatter_tokens(rows.inputs.token_ids, positions_bk, random_bk)
    return rows.reading._replace(token_ids=ids_bs)
