"""The encoder: embeddings, then layers of attention and feed-forward parts.

Axes: b batch, s sequence, h hidden.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bertc.ir.encoder import Encoder as EncoderNode
from bertc.ir.encoder import LayerWidths
from bertc.nn.attend import Visible, can_varlen, within
from bertc.nn.attention import FullAttention
from bertc.nn.dropout import dropout
from bertc.nn.embeddings import Embeddings
from bertc.nn.ffn import Mlp
from bertc.nn.weights import Affine, LayerNorm, Table


class AttentionPart(FullAttention):
    """Attention and the norm that goes with it."""

    def __init__(self, table: Table, name: str, node: EncoderNode, widths: LayerWidths) -> None:
        super().__init__(table, name, widths, node.dropout)
        self.norm = LayerNorm(table, f"{name}.norm", node.norm.eps)


class FfnPart(Mlp):
    """The feed-forward part and the norm that goes with it."""

    def __init__(self, table: Table, name: str, node: EncoderNode) -> None:
        super().__init__(table, name, node.ffn)
        self.norm = LayerNorm(table, f"{name}.norm", node.norm.eps)


class Regions(NamedTuple):
    """What the encoder calls in turn: each can be compiled by itself, a layer for all layers."""

    embed: Callable[
        [torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.dtype], torch.Tensor
    ]
    layer: Callable[[nn.Module, nn.Module, torch.Tensor, Visible], torch.Tensor]
    last_norm: Callable[[torch.Tensor], torch.Tensor]


class Encoder(nn.Module):
    """Token ids (b, s) to hidden states (b, s, h).

    A part exists once for each layer that owns its weights; the other layers apply their owner's.
    With ``recompute`` a layer keeps its input alone, and backward computes the rest of it anew,
    with the same dropout.
    """

    def __init__(self, node: EncoderNode) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = Embeddings(table, node)
        self.attention = nn.ModuleDict(
            {
                str(layer): AttentionPart(table, f"attention.{layer}", node, node.layers[layer])
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
        self.pooler = Affine(table, "pooler") if node.pooler else None
        self.recompute = False
        self._regions = self._plain()

    def forward(
        self,
        token_ids_bs: torch.Tensor,
        segment_ids_bs: torch.Tensor | None,
        attention_mask_bs: torch.Tensor | None,
        sequence_ids_bs: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Hidden states of the last layer; the arguments are those of ``Model.encode``."""
        visible: Visible = None
        if sequence_ids_bs is not None:
            visible = within(sequence_ids_bs, self._varlen(token_ids_bs, dtype))
        elif attention_mask_bs is not None:
            visible = attention_mask_bs[:, None, None, :].bool()
        embed, layer, last_norm = self._regions
        if self.recompute and torch.is_grad_enabled():
            layer = self._recomputed
        x_bsh = embed(token_ids_bs, segment_ids_bs, sequence_ids_bs, dtype)
        for attention, ffn in zip(self.node.attention_owner, self.node.ffn_owner, strict=True):
            x_bsh = layer(self.attention[str(attention)], self.ffn[str(ffn)], x_bsh, visible)
        return x_bsh if self.norm is None else last_norm(x_bsh)

    def compile_regions(self) -> None:
        """Compile a layer as one function of its weights, which serves all layers of its widths.

        Compiled as one whole the layers are no faster, and every one of them takes its time.
        """
        # Each width has a graph for training and one for evaluation; beyond its limit torch raises.
        graphs = 2 * len(set(self.node.layers))
        torch._dynamo.config.recompile_limit += graphs
        torch._dynamo.config.accumulated_recompile_limit += graphs
        self._regions = Regions(
            *(torch.compile(r, fullgraph=True, dynamic=False) for r in self._plain())
        )

    def _plain(self) -> Regions:
        return Regions(self._embed, self._layer, self._last_norm)

    def _embed(
        self,
        token_ids_bs: torch.Tensor,
        segment_ids_bs: torch.Tensor | None,
        sequence_ids_bs: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        x_bsh: torch.Tensor = self.embeddings(token_ids_bs, segment_ids_bs, sequence_ids_bs, dtype)
        return x_bsh

    def _last_norm(self, x_bsh: torch.Tensor) -> torch.Tensor:
        return x_bsh if self.norm is None else self.norm(x_bsh)

    def pool(self, first_h: torch.Tensor) -> torch.Tensor:
        """tanh(W h + b) of first tokens (..., h) (BERT 3)."""
        if self.pooler is None:
            raise ValueError("this encoder has no pooler (pooler=false)")
        return torch.tanh(self.pooler(first_h))

    def _varlen(self, token_ids_bs: torch.Tensor, dtype: torch.dtype) -> bool:
        """Whether the kernel for sequences of any length serves: it has no dropout."""
        drops = self.training and self.node.dropout.attention > 0
        return can_varlen(token_ids_bs.device, dtype) and not drops

    def _recomputed(
        self,
        attention: nn.Module,
        ffn: nn.Module,
        x_bsh: torch.Tensor,
        visible: Visible,
    ) -> torch.Tensor:
        y_bsh: torch.Tensor = checkpoint(
            self._regions.layer, attention, ffn, x_bsh, visible, use_reentrant=False
        )
        return y_bsh

    def _layer(
        self,
        attention: nn.Module,
        ffn: nn.Module,
        x_bsh: torch.Tensor,
        visible: Visible,
    ) -> torch.Tensor:
        return self._feed_forward(ffn, self._attend(attention, x_bsh, visible))

    def _attend(self, part: nn.Module, x_bsh: torch.Tensor, visible: Visible) -> torch.Tensor:
        assert isinstance(part, AttentionPart), "the attention parts are built above"
        if self.norm is not None:
            return x_bsh + self._drop(part(part.norm(x_bsh), visible))
        y_bsh: torch.Tensor = part.norm(x_bsh + self._drop(part(x_bsh, visible)))
        return y_bsh

    def _feed_forward(self, part: nn.Module, x_bsh: torch.Tensor) -> torch.Tensor:
        assert isinstance(part, FfnPart), "the feed-forward parts are built above"
        if self.norm is not None:
            return x_bsh + self._drop(part(part.norm(x_bsh)))
        y_bsh: torch.Tensor = part.norm(x_bsh + self._drop(part(x_bsh)))
        return y_bsh

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return dropout(x, self.node.dropout.hidden, self.training)
