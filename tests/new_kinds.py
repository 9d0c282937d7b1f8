"""A new kind of each sort is its node and its tensors, all of it here: nothing else names it.
``test_extension.py`` plugs each in where its union and its one match are, and uses it.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

from bertc.ir import operation as op
from bertc.ir.base import ONES, Axis, Drawn, Node, Part, Weight, affine
from bertc.ir.network.attention_node import AttentionNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import LayerNorm, PostNorm
from bertc.ir.terms.heads import Classifier
from bertc.ir.terms.node import RowShape, TextTerm
from bertc.learn.objectives.targets import MicroBatch
from bertc.learn.objectives.term import HeadInput, Predicted, TermTensors, TextRows
from bertc.model import EncoderInputs, ffn, norm
from bertc.model.attention.masks import Mask, mask_of
from bertc.model.inputs import AttentionInputs
from bertc.model.layer import AttentionPart
from bertc.model.weights import Linear, Table, parameter


class Mean(AttentionNode):
    """Every query gets the mean of the keys it may attend to."""

    kind: Literal["mean"] = "mean"

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: tuple[Axis, int] = ("heads", widths.inner)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.value", inner, outer, init, "attention"),
            *affine(f"{name}.output", outer, inner, init, "attention"),
        )

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        inner = widths.inner
        return (
            op.Product(call.context, widths.hidden, inner),
            op.Product(call.queries, call.keys, inner, times=call.rows, maps=0),
            op.Product(call.states, inner, widths.hidden),
        )


class MeanAttention(AttentionPart[Mean, Mask]):
    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.value = Linear(table, f"{name}.value")
        self.output = Linear(table, f"{name}.output")

    def prepare(self, kind: Mean, read: AttentionInputs) -> Mask:
        mask = mask_of(read.inputs)
        if mask.allowed is not None:
            return mask
        b, seq = read.inputs.token_ids.shape
        return Mask(torch.ones(b, 1, read.states.shape[1], seq, dtype=torch.bool))

    def forward(
        self, x_bqh: torch.Tensor, keys_bkh: torch.Tensor | None, context: Mask
    ) -> torch.Tensor:
        value_bkw = self.value(x_bqh if keys_bkh is None else keys_bkh)
        share_bqk = context.allowed[:, 0].to(value_bkw.dtype)
        share_bqk = share_bqk / share_bqk.sum(-1, keepdim=True)
        return self.output(share_bqk.expand(*x_bqh.shape[:2], -1) @ value_bkw)


class Gated(Node):
    """outer(inner(x) sigmoid(gate(x))) (Dauphin et al. 2017)."""

    kind: Literal["gated"] = "gated"

    @property
    def setting(self) -> Activation:
        return self.head_activation

    @property
    def head_activation(self) -> Activation:
        return "gelu"

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        inner: tuple[Axis, int] = ("ffn", widths.ffn)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.inner", inner, outer, init, "ffn"),
            *affine(f"{name}.gate", inner, outer, init, "ffn"),
            *affine(f"{name}.outer", outer, inner, init, "ffn"),
        )

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        inner = call.states * widths.ffn
        return (
            op.Product(call.states, widths.hidden, 2 * widths.ffn, maps=2),
            op.Pointwise("silu", inner, kept=inner),
            op.Product(call.states, widths.ffn, widths.hidden),
        )


class GatedFeedForward(ffn.FeedForward):
    def __init__(self, table: Table, name: str, node: Encoder) -> None:
        super().__init__()
        self.inner = Linear(table, f"{name}.inner")
        self.gate = Linear(table, f"{name}.gate")
        self.outer = Linear(table, f"{name}.outer")
        self.norm = norm.build_norm(table, f"{name}.norm", node.norm.of_layers)
        self.output_norm = None

    def forward(self, x_bsh: torch.Tensor) -> torch.Tensor:
        y_bsh: torch.Tensor = self.outer(self.inner(x_bsh) * torch.sigmoid(self.gate(x_bsh)))
        return y_bsh


class MeanAbsolute(LayerNorm):
    """x / mean |x|, scaled."""

    kind: Literal["mean-absolute"] = "mean-absolute"  # type: ignore[assignment]

    def weights(self, name: str, axis: Axis, width: int, part: Part = "norm") -> tuple[Weight, ...]:
        return (Weight(f"{name}.weight", (width,), (axis,), ONES, part, "norm"),)


class PostMean(PostNorm):
    kind: Literal["post"] = "post"
    function_kind: Literal["mean-absolute"] = "mean-absolute"

    @property
    def of_layers(self) -> LayerNorm:
        return MeanAbsolute(eps=self.eps)


class MeanAbsoluteNorm(torch.nn.Module):
    bias = None

    def __init__(self, table: Table, name: str, node: LayerNorm) -> None:
        super().__init__()
        self.weight, self.eps = parameter(table[f"{name}.weight"]), node.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight.to(x.dtype)


class Long(TextTerm):
    """Is a row longer than half of its places? Asked of the first token's state."""

    kind: Literal["long"] = "long"

    @property
    def head_node(self) -> Classifier:
        return Classifier(2)

    def head_rows(self, rows: RowShape) -> int:
        return 1


class LongTargets(NamedTuple):
    positions: torch.Tensor  # (b, 1)
    answers: torch.Tensor  # (b, 1)
    weights: torch.Tensor  # (b, 1)


class LongTensors(TermTensors[Long, LongTargets, Linear]):
    def targets(self, rows: TextRows) -> tuple[EncoderInputs, LongTargets]:
        long_b1 = (rows.inputs.lengths > rows.inputs.token_ids.shape[1] // 2).long()[:, None]
        return rows.reading, LongTargets(torch.zeros_like(long_b1), long_b1, long_b1 * 0.0 + 1)

    def positions(self, own: LongTargets, batch: MicroBatch) -> tuple[torch.Tensor, ...]:
        return (own.positions,)

    def score(self, own: LongTargets, read: HeadInput[Linear]) -> Predicted:
        scores_n2 = read.head(read.states[0].flatten(0, 1)).float()
        answers_n = own.answers.reshape(-1)
        losses_n = F.cross_entropy(scores_n2, answers_n, reduction="none")
        return Predicted(losses_n, scores_n2.argmax(1) == answers_n, labels=answers_n)

    def explain_example(self, own: LongTargets, row: int, nth: int) -> list[tuple[str, str]]:
        return [("long", str(int(own.answers[row, 0])))]
