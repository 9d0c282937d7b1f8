"""Poolers and heads of terms: a module for each node of ``ir.terms.heads``, from its weights.

Axes: b rows, s positions, n states, p starts, h hidden, e embedding, w units of a conditioned head,
f features, v token ids.
"""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.network.body import Body
from bertc.ir.network.ffn import Activation
from bertc.ir.network.head import POOLINGS, AdaptiveHead, LinearHead, TransformHead
from bertc.ir.network.norm import NormFunction
from bertc.ir.terms import heads as nodes, vector_heads as vector_nodes
from bertc.ir.terms.heads import ConditionedSpanHead
from bertc.ir.terms.node import TermNode
from bertc.ir.terms.task_head import NamedSpanHead, StatesHead
from bertc.model.bilstm import NamedSpanScores, StatesScores
from bertc.model.ffn import activate
from bertc.model.native.kernels import dropout
from bertc.model.norm import build_norm, norm_if_any
from bertc.model.own import construct_from
from bertc.model.weights import Embedding, Linear, Table, parameter


class Heads(nn.Module):
    """Heads by name, one instance for all terms that share it."""

    def __init__(self, heads: Iterable[tuple[TermNode, Body]]) -> None:
        super().__init__()
        for objective, encoder in heads:
            # Set by hand: the name of a task may be that of a method of modules.
            self._modules.setdefault(objective.head_name, make_head(objective, encoder))

    def __getitem__(self, name: str) -> nn.Module:
        """The head of this name."""
        head = self._modules[name]
        assert head is not None, "heads are modules"
        return head

    def answer(self, name: str, learned: str) -> None:
        """Let the head called ``learned`` answer to another name too."""
        self._modules[name] = self[learned]


class Pooler(Linear):
    """A dense layer and what follows it: one state a row, or a new state of each token."""

    def __init__(self, table: Table, node: Body) -> None:
        super().__init__(table, "pooler")
        steps = POOLINGS[node.pooler]
        self.mean, self.units = steps.mean, steps.units or (node.head_activation,)
        normed = steps.transforms
        self.norm = build_norm(table, "pooler.norm", node.head_norm) if normed else None

    def forward(self, x: Tensor) -> Tensor:
        """Dense layer, activations and norm of states (..., h)."""
        y: Tensor = super().forward(x)
        for unit in self.units:
            y = activate(unit, y)
        return y if self.norm is None else self.norm(y)

    def of_rows(
        self, x_bkh: Float[Tensor, "*b h"], real_bs: Bool[Tensor, "b s"] | None
    ) -> Float[Tensor, "*b h"]:
        """Pool first states, or with a mean all those of real tokens to one state (b, 1, h)."""
        read: Tensor = self(_mean(x_bkh, real_bs) if self.mean == "before" else x_bkh)
        return _mean(read, real_bs) if self.mean == "after" else read


def _mean(
    x_bsh: Float[Tensor, "b s h"], real_bs: Bool[Tensor, "b s"] | None
) -> Float[Tensor, "b 1 h"]:
    if real_bs is None:
        return x_bsh.mean(1, keepdim=True)
    real_bs1 = real_bs[..., None].to(x_bsh.dtype)
    # A row that fills up a batch may have no token.
    return (x_bsh * real_bs1).sum(1, keepdim=True) / real_bs1.sum(1, keepdim=True).clamp(min=1)


class TokenHead(nn.Module):
    """States to features (n, e), which a table turns into scores, and a bias per token."""

    def __init__(self, table: Table, name: str, node: Body) -> None:
        super().__init__()
        normed = isinstance(node.head, TransformHead)
        self.activation = None if isinstance(node.head, LinearHead) else node.head_activation
        self.dropout = node.head.dropout if isinstance(node.head, TransformHead) else 0.0
        self.inner = Linear(table, f"{name}.inner") if f"{name}.inner.weight" in table else None
        self.dense = Linear(table, f"{name}.dense") if f"{name}.dense.weight" in table else None
        self.norm = build_norm(table, f"{name}.norm", node.head_norm) if normed else None
        untied, bias = table.get(f"{name}.weight"), table.get(f"{name}.bias")
        # Without a table of its own it reads that of the token embeddings.
        self.weight = None if untied is None else parameter(untied)
        self.bias = None if bias is None else parameter(bias)

    def forward(self, x_nh: Float[Tensor, "n h"]) -> Tensor:
        """The features."""
        x: Tensor = x_nh
        for dense in (self.inner, self.dense):
            x = x if dense is None else dense(x)
            x = x if dense is None or not self.activation else activate(self.activation, x)
        x = x if self.norm is None else self.norm(x)
        return dropout(x, self.dropout, self.training)

    def bias_of(self, table_ve: Float[Tensor, "v e"]) -> Float[Tensor, "v"]:
        """The bias (v,); zeros if there is none."""
        return table_ve.new_zeros(len(table_ve)) if self.bias is None else self.bias

    def scores(self, x_nh: Float[Tensor, "n h"], table_ve: Float[Tensor, "v e"]) -> Tensor:
        """Scores (n, v) of every token."""
        features_ne = self(x_nh)
        dtype = features_ne.dtype
        return F.linear(features_ne, table_ve.to(dtype), self.bias_of(table_ve).to(dtype))


class CopyingTokenHead(TokenHead):
    """The same with a score per state, above 0 if the input token is copied."""

    def __init__(self, table: Table, name: str, node: Body) -> None:
        super().__init__(table, name, node)
        self.copy = Linear(table, f"{name}.copy")


class AdaptiveTokenHead(nn.Module):
    """A bias per token, an entry per cluster, and the first cluster's projection if narrower."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.bias = parameter(table[f"{name}.bias"])
        self.cluster = Linear(table, f"{name}.cluster")
        narrows = f"{name}.project.weight" in table
        self.project = Linear(table, f"{name}.project") if narrows else None


class Boundary(nn.Module):
    """Two layers over both boundaries of a span and the position in between (SpanBERT 3.2)."""

    def __init__(self, table: Table, name: str, node: Body) -> None:
        super().__init__()
        self.activation = node.head_activation
        self.position = Embedding(table, f"{name}.position")
        self.first = Linear(table, f"{name}.first")
        self.first_norm = build_norm(table, f"{name}.first_norm", node.head_norm)
        self.second = Linear(table, f"{name}.second")
        self.second_norm = build_norm(table, f"{name}.second_norm", node.head_norm)
        self.bias = parameter(table[f"{name}.bias"])

    def forward(
        self, left_nh: Float[Tensor, "n h"], right_nh: Float[Tensor, "n h"], at_n: Int[Tensor, "n"]
    ) -> Tensor:
        """Features (n, e) that the token table turns into scores."""
        place_nf = self.position.weight.index_select(0, at_n).to(left_nh.dtype)
        x = torch.cat([left_nh, right_nh, place_nf], dim=1)
        x = self.first_norm(activate(self.activation, self.first(x)))
        return cast(Tensor, self.second_norm(activate(self.activation, self.second(x))))


class Detector(Linear):
    """Scores per state, as of tokens that look replaced; a norm, if any, reads a first one too."""

    def __init__(
        self, table: Table, name: str, activation: Activation, norm: NormFunction | None = None
    ) -> None:
        super().__init__(table, name)
        self.activation = activation
        self.dense = Linear(table, f"{name}.dense")
        self.norm = norm_if_any(table, f"{name}.norm", norm)

    def forward(self, x_bsh: Float[Tensor, "b s h"], first: Tensor | None = None) -> Tensor:
        """States to scores (b, s); ``first`` are those of first tokens (b, 1|s, h), None: of x."""
        if self.norm is not None:
            x_bsh = self.norm(x_bsh + (x_bsh[:, :1] if first is None else first))
        return super().forward(activate(self.activation, self.dense(x_bsh))).squeeze(-1)


class Ends(Detector):
    """End scores of every token, for each of several starts."""

    def scores(self, x_bsh: Float[Tensor, "b s h"], begun_bph: Float[Tensor, "b p h"]) -> Tensor:
        """Scores (b, p, s) in fp32 of states (b, s, h), for starts with states (b, p, h)."""
        assert self.dense.bias is not None, "end scores have a bias"
        h, weight, dtype = begun_bph.shape[2], self.dense.weight, begun_bph.dtype
        # One product per half: concatenated states would be p times as many.
        own_bsw = F.linear(x_bsh, weight[:, :h].to(x_bsh.dtype))
        given_bpw = F.linear(begun_bph, weight[:, h:].to(dtype), self.dense.bias.to(dtype))
        mixed_bpsw = activate(self.activation, own_bsw[:, None] + given_bpw[:, :, None])
        if self.norm is not None:
            mixed_bpsw = self.norm(mixed_bpsw)
        return Linear.forward(self, mixed_bpsw)[..., 0].float()


class ConditionedSpan(nn.Module):
    """Start scores, end scores given a start, and optionally answerability."""

    def __init__(self, table: Table, name: str, head: ConditionedSpanHead, node: Body) -> None:
        super().__init__()
        self.start = Linear(table, f"{name}.start")
        units, norm = head.activation, node.head_norm if head.normed else None
        self.end = Ends(table, f"{name}.end", units, norm)
        self.answered = Detector(table, f"{name}.answered", units) if head.answered else None


class WidthMaps(nn.ModuleList):
    """Maps of states to another width: none, one for all, or one for each of several layers."""

    def of(self, number: int, x_bkh: Float[Tensor, "b k h"]) -> Tensor:
        """States of the layer of that number, counted from 0, as wide as they are compared."""
        if not len(self):
            return x_bkh
        return cast(Tensor, self[min(number, len(self) - 1)](x_bkh))


def make_head(objective: TermNode, encoder: Body) -> nn.Module:
    """Build the head of an objective over the states of an encoder."""
    node, name = objective.head_node, objective.head_name
    table = {weight.name: weight for weight in node.weights(name, encoder)}
    match node:
        case nodes.VocabularyHead() | vector_nodes.SparseHead():
            if isinstance(encoder.head, AdaptiveHead):
                return AdaptiveTokenHead(table, name)
            return TokenHead(table, name, encoder)
        case nodes.CopyingHead():
            return CopyingTokenHead(table, name, encoder)
        case nodes.Classifier():
            return Linear(table, name)
        case StatesHead() as head:
            return StatesScores(table, name, head)
        case nodes.BoundaryHead():
            return Boundary(table, name, encoder)
        case nodes.DetectorHead(normed=normed):
            norm = encoder.head_norm if normed else None
            return Detector(table, name, encoder.head_activation, norm)
        case ConditionedSpanHead() as head:
            return ConditionedSpan(table, name, head, encoder)
        case NamedSpanHead() as spans:
            return NamedSpanScores(table, name, spans)
        case nodes.Projections(count=count):
            return WidthMaps(Linear(table, f"{name}.{number}") for number in range(count))
        case vector_nodes.TokenVectorHead():
            return WidthMaps([Linear(table, f"{name}.0")])
        case vector_nodes.VectorHead(dense=dense, maps=maps):
            return WidthMaps(Linear(table, f"{name}.{n}") for n in range(dense or len(maps)))
        case nodes.OwnHead(part=part):
            return construct_from(table, name, part)
