"""The base class of attention modules.

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
from bertc.nn.body import Projected
from bertc.nn.inputs import EncoderInputs
from bertc.nn.norm import norm_if_any
from bertc.nn.weights import Linear, Table


class Context(Protocol):
    """Everything besides states that the layers of one kind read: masks, distances, angles."""

    def select_queries(self, inputs: EncoderInputs) -> Self:
        """The context of a layer that computes only the output positions."""


Kind = TypeVar("Kind", contravariant=True)
ContextOfKind = TypeVar("ContextOfKind", bound=Context)


class AttentionPart(nn.Module, ABC, Generic[Kind, ContextOfKind]):
    """Attention of one kind in one layer, with its norms."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__()
        self.norm = norm_if_any(table, f"{name}.norm", node.attention_norm(layer))
        self.output_norm = norm_if_any(table, f"{name}.output_norm", node.output_norm)
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
        """Make the context for all layers of this kind, once per forward pass.

        ``x`` are the embeddings (b, q, h), ``shared`` the weights shared by all layers, by name.
        """

    @abstractmethod
    def forward(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: ContextOfKind,
    ) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries ``x``; keys are ``keys``, None: ``x``."""


class ProjectedAttention(AttentionPart[Kind, ContextOfKind]):
    """Attention of queries, keys and values, each projected from states.

    They may be looked at between the two: terms of distillation want them of some layers.
    """

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.query = Linear(table, f"{name}.query")
        self.key = Linear(table, f"{name}.key")
        self.value = Linear(table, f"{name}.value")

    def project(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: ContextOfKind,
    ) -> Projected:
        """Queries of ``x``; keys and values of ``keys``, None: of ``x``."""
        if keys_bkh is None:
            return Projected(*fused_linear((self.query, self.key, self.value), x_bqh))
        return Projected(self.query(x_bqh), *fused_linear((self.key, self.value), keys_bkh))

    @abstractmethod
    def mix(self, projected: Projected, context: ContextOfKind) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries."""

    def forward(
        self,
        x_bqh: Float[torch.Tensor, "b q h"],
        keys_bkh: Float[torch.Tensor, "b k h"] | None,
        context: ContextOfKind,
    ) -> Float[torch.Tensor, "b q h"]:
        """New states (b, q, h) of the queries."""
        return self.mix(self.project(x_bqh, keys_bkh, context), context)


def fused_linear(
    maps: Sequence[Linear], x_bsh: Float[torch.Tensor, "b s h"]
) -> tuple[torch.Tensor, ...]:
    """Several projections of the same states as one product: narrow ones underuse hardware."""
    weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
    biases: list[torch.Tensor] = [m.bias for m in maps if m.bias is not None]
    bias = torch.cat(biases).to(x_bsh.dtype) if biases else None
    return torch.split(F.linear(x_bsh, weight, bias), [len(m.weight) for m in maps], dim=-1)
