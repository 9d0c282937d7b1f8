"""The base of all attention kinds.

Axes: b batch, q queries, k keys, h hidden.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import nn

from bertc.ir.network.encoder import Encoder
from bertc.nn.inputs import EncoderInputs
from bertc.nn.norm import build_norm
from bertc.nn.weights import Linear, Table


class Context(Protocol):
    """All that layers of one kind read beside states: masks, distances, angles."""

    def select_queries(self, inputs: EncoderInputs) -> Self:
        """The context of a layer that computes the output positions alone."""


Kind = TypeVar("Kind", contravariant=True)
ContextOfKind = TypeVar("ContextOfKind", bound=Context)


class AttentionPart(nn.Module, ABC, Generic[Kind, ContextOfKind]):
    """Attention of some kind in one layer, and the norm that goes with it."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__()
        self.norm = build_norm(table, f"{name}.norm", node.norm.function)
        self.heads = node.layers[layer].heads
        self.causal = node.causal
        self.dropout = node.dropout.attention

    @abstractmethod
    def prepare(
        self,
        kind: Kind,
        inputs: EncoderInputs,
        x_bqh: Float[torch.Tensor, "b q h"],
        shared: Mapping[str, torch.Tensor],
    ) -> ContextOfKind:
        """The context of all layers of that kind, made once of what the encoder reads.

        ``x`` are the embeddings, ``shared`` the weights by name that all layers have in common.
        """

    @abstractmethod
    def forward(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: ContextOfKind,
    ) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries ``x``; ``keys``: states attended to, None: ``x``."""


def fused_linear(
    maps: Sequence[Linear], x_bsh: Float[torch.Tensor, "b s h"]
) -> tuple[torch.Tensor, ...]:
    """Several maps of the same states as one product: narrow ones leave the hardware idle."""
    weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
    biases: list[torch.Tensor] = [m.bias for m in maps if m.bias is not None]
    bias = torch.cat(biases).to(x_bsh.dtype) if biases else None
    return F.linear(x_bsh, weight, bias).chunk(len(maps), dim=-1)
