"""Prediction of original tokens from text with replaced ones.

Axes: b rows, s positions of a row, k replacements of a row, p predictions: s or k, n = b*p.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import nn

from bertc.ir.terms.restore import Restore
from bertc.nn import EncoderInputs
from bertc.nn.body import BodyModule
from bertc.nn.heads import CopyingTokenHead
from bertc.objectives.rtd import choose_replaced, with_replacements
from bertc.objectives.targets import MicroBatch, RestoredTokens, scatter_tokens
from bertc.objectives.term import Predicted, RowView, TextRows, TokenTensors, marked
from bertc.objectives.vocabulary import token_losses


class RestoreTensors(TokenTensors[Restore, RestoredTokens, nn.Module]):
    """The original of each replaced token, or of all tokens."""

    def targets(
        self, rows: TextRows, reading: EncoderInputs
    ) -> tuple[EncoderInputs, RestoredTokens]:
        """Positions to replace and the originals; replacements too, unless a network samples."""
        assert rows.hidden is not None, "restore replaces masked positions"
        where = choose_replaced(self.node.over, rows.inputs, rows.hidden, rows.real, rows.key)
        ids_bs = rows.inputs.token_ids
        originals_bp = ids_bs if self.node.over == "all" else ids_bs.gather(1, where.positions)
        return with_replacements(rows, reading, where), RestoredTokens(*where, originals_bp)

    def positions(self, own: RestoredTokens, batch: MicroBatch) -> tuple[torch.Tensor, ...] | None:
        """Positions (b, k) of the chosen tokens; None: all are predicted."""
        return None if self.node.over == "all" else (own.positions,)

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: RestoredTokens,
        batch: MicroBatch,
        head: nn.Module,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """Scores over the vocabulary, of all tokens mixed with a copy of the input."""
        by_head = token_losses(states[0], own.targets, head, network, z=self.node.z)
        if not isinstance(head, CopyingTokenHead):
            return by_head
        same_n = (batch.reading.token_ids == own.targets).reshape(-1)
        copies_n = head.copy(states[0]).float().reshape(-1)
        losses_n = copied_losses(by_head.losses, copies_n, same_n)
        return Predicted(losses_n, torch.where(copies_n > 0, same_n, by_head.hits))

    def weights(self, own: RestoredTokens) -> torch.Tensor:
        """1 where a token is predicted, else 0; (b, s) or (b, k)."""
        return own.classified

    def chances(self, own: RestoredTokens) -> torch.Tensor:
        """A random number (b, k) per replaced token."""
        return own.chances

    def take_guesses(
        self,
        own: RestoredTokens,
        batch: MicroBatch,
        reading: EncoderInputs,
        guesses_bk: Int[torch.Tensor, "b k"],
    ) -> EncoderInputs:
        """Inputs with the guesses at the chosen positions; the first token of a row stays."""
        ids_bs = scatter_tokens(batch.originals, own.positions, guesses_bk)
        return reading._replace(token_ids=ids_bs)

    def marks(self, own: RestoredTokens, row: int) -> set[int]:
        """Positions of the replaced tokens."""
        return marked(own.positions, own.weights, row)

    def explain(self, own: RestoredTokens, view: RowView) -> list[tuple[str, str]]:
        """Numbers of tokens predicted and replaced."""
        predicted = int(own.classified[view.row].sum())
        return [("restore", f"{predicted} predicted, {len(self.marks(own, view.row))} replaced")]


def copied_losses(
    losses_n: Float[torch.Tensor, "n"],
    copies_n: Float[torch.Tensor, "n"],
    same_n: Bool[torch.Tensor, "n"],
) -> Float[torch.Tensor, "n"]:
    """-log(c [input is the original] + (1 - c) q) of -log q, c the sigmoid of ``copies`` (n,)."""
    other_n = losses_n - F.logsigmoid(-copies_n)
    either_n = -torch.logaddexp(F.logsigmoid(copies_n), -other_n)
    return torch.where(same_n, either_n, other_n)
