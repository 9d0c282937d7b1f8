"""The encoder: embeddings, then layers of attention and feed-forward parts.

Axes: b batch, s sequence, q positions of it that ask, k positions asked of a row, u of its tokens
unseen, h hidden.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from bertc.ir.network.attention import FullAttention as FullNode
from bertc.ir.network.attention import RelativeAttention as RelativeNode
from bertc.ir.network.encoder import Encoder as EncoderNode
from bertc.nn.attend import can_varlen
from bertc.nn.attention import attention_part
from bertc.nn.dropout import dropout
from bertc.nn.embeddings import Embeddings
from bertc.nn.ffn import Mlp
from bertc.nn.inputs import Order, Reading, rows_at
from bertc.nn.masks import (
    Bounds,
    Ordered,
    Relation,
    Visible,
    beginnings,
    end_to_end,
    in_order,
    narrowed,
    not_later,
    opened,
    within,
)
from bertc.nn.memory import Memory
from bertc.nn.norm import norm_of_sum
from bertc.nn.part import AttentionPart
from bertc.nn.relative import encode_distances
from bertc.nn.weights import LayerNorm, Linear, Table, parameter


class FfnPart(Mlp):
    """The feed-forward part and the norm that goes with it."""

    def __init__(self, table: Table, name: str, node: EncoderNode) -> None:
        super().__init__(table, name, node.ffn, node.dropout.ffn)
        self.norm = LayerNorm(table, f"{name}.norm", node.norm.eps)


class Regions(NamedTuple):
    """What the encoder calls in turn: each can be compiled by itself, a layer for all layers."""

    embed: Callable[[Reading, torch.dtype], torch.Tensor]
    layer: Callable[
        [nn.Module, nn.Module, torch.Tensor, torch.Tensor | None, Visible], torch.Tensor
    ]
    last_norm: Callable[[torch.Tensor], torch.Tensor]


class Encoder(nn.Module):
    """Token ids (b, s) to hidden states (b, s, h).

    A part exists once for each layer that owns its weights; the other layers apply their owner's.
    With ``recompute`` a layer keeps its input alone, and backward computes the rest of it anew,
    with the same dropout. With ``same_length`` each token sees as many as are remembered.
    """

    def __init__(self, node: EncoderNode) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = Embeddings(table, node)
        self.relative = nn.ParameterDict(
            {w.name.removeprefix("relative."): parameter(w) for w in node.common_weights()}
        )
        self.attention = nn.ModuleDict(
            {
                str(layer): attention_part(table, f"attention.{layer}", node, node.layers[layer])
                for layer in sorted(set(node.attention_owner))
            }
        )
        self.ffn = nn.ModuleDict(
            {
                str(layer): FfnPart(table, f"ffn.{layer}", node)
                for layer in sorted(set(node.ffn_owner))
            }
        )
        pre = node.norm.kind == "pre"
        self.norm = LayerNorm(table, "norm", node.norm.eps) if pre else None
        self.pooler = Linear(table, "pooler") if node.pooler else None
        self.recompute = False
        self.same_length = False
        self._regions = self._plain()

    def forward(self, reading: Reading, dtype: torch.dtype) -> tuple[torch.Tensor, Memory | None]:
        """Hidden states of the last layer (b, s, h), or where asked (b, k, h), and the memory.

        With an order those of unseen tokens follow, and look at the others: (b, s + u, h).
        """
        embed, layer, last_norm = self._regions
        if self.recompute and torch.is_grad_enabled():
            layer = self._recomputed
        x = embed(reading._replace(asked=None, starts=None), dtype)
        visible = self._visible(reading, x)
        seq, memory = reading.token_ids.shape[1], reading.memory
        remembered: list[torch.Tensor] = []
        owners = zip(self.node.attention_owner, self.node.ffn_owner, strict=True)
        for number, (attention, ffn) in enumerate(owners):
            context = None if reading.order is None else x[:, :seq]
            if memory is not None:
                context = torch.cat([memory.states[number], x[:, :seq]], dim=1)
                remembered.append(memory.kept(context))
            if reading.asked is not None and number == len(self.node.layers) - 1:
                visible = narrowed(visible, reading.asked, seq, memory.length if memory else 0)
                x, context = rows_at(x, reading.asked), x if context is None else context
            x = layer(self.attention[str(attention)], self.ffn[str(ffn)], x, context, visible)
        moved_on = memory.moved_on(remembered, seq) if memory else None
        x = x if self.norm is None else last_norm(x)
        return dropout(x, self.node.dropout.last, self.training), moved_on

    def _visible(self, reading: Reading, x_bsh: torch.Tensor) -> Visible:
        match self.node.attention:
            case FullNode():
                return self._mask(reading, can_varlen(x_bsh.device, x_bsh.dtype))
            case RelativeNode():
                return self._relation(self.node.attention, reading, x_bsh)
            case _:
                assert_never(self.node.attention)

    def _relation(self, node: RelativeNode, reading: Reading, x_bsh: torch.Tensor) -> Relation:
        mask = self._mask(reading, varlen=False)
        assert mask is None or isinstance(mask, torch.Tensor | Ordered), "asked for a mask"
        _, seq = reading.token_ids.shape
        before = reading.memory.length if reading.memory else 0
        unseen, same = None if reading.order is None else reading.order.unseen, None
        if node.segments:
            ids = reading.segment_ids
            ids = torch.zeros_like(reading.token_ids[:1]) if ids is None else ids
            asking = ids if unseen is None else torch.cat([ids, ids.gather(1, unseen)], dim=1)
            # What is remembered counts as segment 0 (XLNet, modeling.py).
            same = (asking[:, :, None] == F.pad(ids, (before, 0))[:, None, :])[:, None]
            same = same.to(x_bsh.dtype)
        ahead = 1 if self.node.causal else seq
        backward = reading.backward
        both = backward is not None
        distances_lh = self._drop(encode_distances(node, before + seq, ahead, both, x_bsh))
        places, sees = None if unseen is None else before + unseen, None
        if isinstance(mask, Ordered):
            mask, sees = mask
        if mask is not None:
            mask = torch.zeros_like(mask, dtype=x_bsh.dtype).masked_fill(~mask, -torch.inf)
        return Relation(mask, distances_lh, backward, places, same, sees, **self.relative)

    def _mask(
        self, reading: Reading, varlen: bool
    ) -> torch.Tensor | Bounds | Ordered | Literal["earlier"] | None:
        if reading.order is not None:
            return self._ordered(reading.order, reading)
        if self.node.causal or reading.memory is not None:
            return self._masked(reading)
        if reading.sequence_ids is not None:
            if not varlen or self._drops_attention:
                return within(reading.sequence_ids)
            starts = reading.starts
            starts = beginnings(reading.sequence_ids) if starts is None else starts
            return end_to_end(starts, reading.token_ids.shape[1])
        if reading.attention_mask is not None:
            mask_bs = reading.attention_mask.bool()
            # A row of padding alone sees itself: the softmax of no score at all is not a number.
            mask_bs = mask_bs | ~mask_bs.any(1, keepdim=True)
            return mask_bs[:, None, None, :]
        return None

    def _ordered(self, order: Order, reading: Reading) -> Ordered:
        seen = self._mask(reading._replace(order=None, memory=None), varlen=False)
        assert seen is None or isinstance(seen, torch.Tensor), "asked for a mask"
        mask_bqs = in_order(order, None if seen is None else seen[:, 0])
        return opened(mask_bqs if reading.memory is None else reading.memory.seen(mask_bqs))

    def _masked(self, reading: Reading) -> torch.Tensor | Literal["earlier"]:
        """Of a causal encoder, where padding stands after all there is to see, or with memory."""
        memory, (_, seq) = reading.memory, reading.token_ids.shape
        fused = isinstance(self.node.attention, FullNode)
        if fused and memory is None and reading.sequence_ids is None:
            return "earlier"
        seen_bss = not_later(seq, reading.token_ids.device)
        if not self.node.causal:
            seen_bss = torch.ones_like(seen_bss)
        if reading.sequence_ids is not None:
            seen_bss = seen_bss & within(reading.sequence_ids)[:, 0]
        if memory is None:
            return seen_bss[:, None]
        seen_bqs = memory.seen(seen_bss)
        # As many keys for every token as are remembered (Transformer-XL, same_length).
        return (seen_bqs.triu(1) if self.same_length else seen_bqs)[:, None]

    def compile_regions(self, *, any_shape: bool = False) -> None:
        """Compile a layer as one function of its weights, which serves all layers of its widths.

        With ``any_shape`` its graphs serve batches of any rows and tokens, a little more slowly.
        Layers are not nested in one graph: its gradients are wrong (docs/compiler.md).
        """
        # Each width, and the last layer where little is asked of it, has a graph for training and
        # one for evaluation; beyond its limit torch raises.
        graphs = 2 * (len(set(self.node.layers)) + 1)
        if any_shape:  # a batch of one row has its own, and so have rows that examples share
            graphs *= 4
        torch._dynamo.config.recompile_limit += graphs
        torch._dynamo.config.accumulated_recompile_limit += graphs
        self._regions = Regions(
            *(torch.compile(r, fullgraph=True, dynamic=any_shape) for r in self._plain())
        )

    def _plain(self) -> Regions:
        return Regions(self._embed, self._layer, self._last_norm)

    def _embed(self, reading: Reading, dtype: torch.dtype) -> torch.Tensor:
        x_bsh: torch.Tensor = self.embeddings(reading, dtype)
        return x_bsh

    def _last_norm(self, x_bsh: torch.Tensor) -> torch.Tensor:
        return x_bsh if self.norm is None else self.norm(x_bsh)

    def pool(self, first_h: torch.Tensor) -> torch.Tensor:
        """tanh(W h + b) of first tokens (..., h) (BERT 3)."""
        if self.pooler is None:
            raise ValueError("this encoder has no pooler (pooler=false)")
        return torch.tanh(self.pooler(first_h))

    @property
    def _drops_attention(self) -> bool:
        """Whether attention has dropout, which the kernel for sequences of any length lacks."""
        return self.training and self.node.dropout.attention > 0

    def _recomputed(
        self,
        attention: nn.Module,
        ffn: nn.Module,
        x: torch.Tensor,
        context: torch.Tensor | None,
        visible: Visible,
    ) -> torch.Tensor:
        y: torch.Tensor = checkpoint(
            self._regions.layer, attention, ffn, x, context, visible, use_reentrant=False
        )
        return y

    def _layer(
        self,
        attention: nn.Module,
        ffn: nn.Module,
        x: torch.Tensor,
        context: torch.Tensor | None,
        visible: Visible,
    ) -> torch.Tensor:
        """States (b, q, h) one layer on; ``context`` (b, s, h) is what they look at if others."""
        return self._feed_forward(ffn, self._attend(attention, x, context, visible))

    def _attend(
        self, part: nn.Module, x: torch.Tensor, context: torch.Tensor | None, visible: Visible
    ) -> torch.Tensor:
        assert isinstance(part, AttentionPart), "the attention parts are built above"
        if self.norm is not None:
            seen = None if context is None else part.norm(context)
            return x + self._drop(part(part.norm(x), seen, visible))
        return self._normed(part.norm, x, part(x, context, visible))

    def _feed_forward(self, part: nn.Module, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(part, FfnPart), "the feed-forward parts are built above"
        if self.norm is not None:
            return x + self._drop(part(part.norm(x)))
        return self._normed(part.norm, x, part(x))

    def _normed(self, norm: LayerNorm, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return norm_of_sum(norm, x, y, self.node.dropout.hidden, self.training)

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return dropout(x, self.node.dropout.hidden, self.training)
