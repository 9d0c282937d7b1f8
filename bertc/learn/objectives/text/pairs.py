"""Pairs of texts: whether a segment follows another (nsp, sop), and how alike two are (embed).

Axes: b rows, m examples of a row, n = b*m, h hidden; of embed n examples of a micro-batch, m of the
whole batch, t texts of an example, d numbers of a vector.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bertc.ir.learning import Embed, SparseVectors, TokenVectors
from bertc.ir.terms.pairs import PairTerm
from bertc.learn.objectives.softmax import similarities
from bertc.learn.objectives.targets import MicroBatch, PairTargets, TaskTargets
from bertc.learn.objectives.term import HeadInput, Predicted, TermTensors, TextRows
from bertc.model import BodyModule, EncoderInputs, Linear, WidthMaps, dropout


class PairTensors(TermTensors[PairTerm, PairTargets, Linear]):
    """Binary classification of the pooled first token of each example."""

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, PairTargets]:
        inputs = rows.inputs
        used_bm = inputs.starts < inputs.token_ids.shape[1]
        positions_bm = torch.where(used_bm, inputs.starts, 0)
        return rows.reading, PairTargets(positions_bm, inputs.pair_labels, used_bm.float())

    def score(self, targets: PairTargets, read: HeadInput[Linear]) -> Predicted:
        pooled_bmh = read.network.pool(read.states[0], read.batch.reading)
        logits_n2 = read.head(pooled_bmh.reshape(-1, pooled_bmh.shape[-1])).float()
        labels_n = targets.labels.reshape(-1)
        losses_n = F.cross_entropy(logits_n2, labels_n, reduction="none")
        return Predicted(losses_n, logits_n2.argmax(1) == labels_n, labels=labels_n)

    def explain_example(self, targets: PairTargets, row: int, nth: int) -> list[tuple[str, str]]:
        label = int(targets.labels[row, nth])
        return [(self.node.kind, f"{label}, {self.node.answers[label]}")]


class EmbedTensors(TermTensors[Embed, TaskTargets, nn.Module]):
    """Texts whose vectors are compared with each other; all rows of a batch belong to it."""

    def positions(self, targets: TaskTargets, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """The first token of each row (b, 1), or None: all states."""
        return (targets.positions,) if self.node.pooling == "cls" else None

    def vectors(
        self, states: Tensor, targets: TaskTargets, head: nn.Module, network: BodyModule
    ) -> Float[Tensor, "b d"]:
        """Vectors (b, d) or (b, s, d) of rows in fp32; the dense layer is for training alone."""
        if isinstance(self.node.pooling, SparseVectors):
            weights_bv = similarities.term_weights(states, targets.passage, head, network)
            return dropout(weights_bv, self.node.dropout, network.training)
        if isinstance(self.node.pooling, TokenVectors):
            assert isinstance(head, WidthMaps), "it was built for vectors"
            vectors_bsd = dropout(head.of(0, states).float(), self.node.dropout, network.training)
            return vectors_bsd.masked_fill(~targets.passage[..., None], 0.0)
        maps = head.children() if self.node.dense else ()
        vectors_bd = similarities.pooled(self.node.pooling, states, targets.passage, maps)
        if not network.training:
            return vectors_bd
        vectors_bd = dropout(vectors_bd, self.node.dropout, training=True)
        if self.node.mlp:
            assert isinstance(head, WidthMaps), "it was built for vectors"
            vectors_bd = torch.tanh(head.of(0, vectors_bd.to(states.dtype))).float()
        return vectors_bd

    def compared_vectors(
        self, targets: TaskTargets, read: HeadInput[Any]
    ) -> tuple[Float[Tensor, "n t d"], Float[Tensor, "n t"]]:
        """Vectors of the texts of examples, and scores of these texts, nan if there are none."""
        texts = self.node.answer.texts
        vectors_ntd = similarities.by_example(
            self.vectors(read.states[0], targets, read.head, read.network), texts
        )
        return vectors_ntd, targets.targets.view(-1, texts)

    def score(self, targets: TaskTargets, read: HeadInput[nn.Module]) -> Predicted:
        """Losses and hits (n,) of its examples, each beside all those of the batch."""
        vectors_ntd, scores_nt = self.compared_vectors(targets, read)
        batch, has_scores = read.batch.whole_batch, bool(self.node.score)
        over = read.batch.over or 0.0
        if batch is None:
            known_nt = scores_nt if has_scores else None
            return similarities.related_losses(self.node, vectors_ntd, known_nt, over)
        count = len(vectors_ntd)
        if vectors_ntd.dim() == 4:
            vectors_ntd = similarities.as_long(vectors_ntd, batch.vectors.shape[2])
        own = slice(batch.first, batch.first + count)
        parts = batch.vectors[: own.start], vectors_ntd, batch.vectors[own.stop :]
        known_mt = batch.scores if has_scores else None
        of_all = similarities.related_losses(self.node, torch.cat(parts), known_mt, over)
        # The value is of its own examples, the gradient of all.
        total = of_all.losses.sum()
        losses_n = of_all.losses[own].detach() + (total - total.detach()) / count
        return Predicted(losses_n, of_all.hits[own])

    def weights(self, targets: TaskTargets) -> Tensor:
        return targets.weights.view(-1, self.node.answer.texts)[:, 0]
