"""A layer: the base class of its attention, and both parts with norms and residual branches.

Axes: b batch, q queries, k keys, h hidden, w widths of all heads, j outputs of the residual stream.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bertc.ir.network.attention_node import Gate, GatedAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.residual import Residual as Kinds, stream_name
from bertc.ir.network.sharing import SharedPart
from bertc.model.attention.masks import AttentionMask
from bertc.model.body import Projected, profile_as
from bertc.model.ffn import FeedForward, activate, joining_of
from bertc.model.inputs import AttentionInputs, EncoderInputs, gather_positions
from bertc.model.native.kernels import dropout
from bertc.model.norm import AnyNorm, norm_if_any, sum_and_norm
from bertc.model.own import call_own
from bertc.model.weights import Linear, Table, fused_linear


class Context(Protocol):
    """Everything besides states that the layers of one kind read: masks, distances, angles."""

    @property
    def mask(self) -> AttentionMask | Tensor | None:
        """The mask, in its kind's form."""

    def select_queries(self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]) -> Self:
        """The context of a layer that computes only the queries at some positions."""


Kind = TypeVar("Kind", contravariant=True)
ContextT = TypeVar("ContextT", bound=Context)


class Residual(NamedTuple):
    """The way of a part's output to the residual stream: the place of norms, and its dropout."""

    free: bool  # no norm is on the stream, but one before each part
    dropout: float
    drops_last: bool  # after the norm of a part's output, not before
    kind: Kinds

    def joined(
        self,
        part: "AttentionPart[Any, Any] | FeedForward",
        x: Tensor,
        y: Tensor,
        following: AnyNorm | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The stream ``x`` with a part's output, and its norm for the part that follows."""
        rate = self.dropout if part.training else 0.0
        if part.own_join is not None:
            x = call_own(part.own_join, x, self._dropped(part, y))
            x = x if self.free or part.norm is None else part.norm(x)
            return x, x if following is None or not self.free else following(x)
        if not self.free:
            assert part.norm is not None, "post-norm has one in every layer"
            _, normed = sum_and_norm(part.norm, x, self._scaled(y), rate)
            return normed, normed
        if part.output_norm is None and following is not None:
            return sum_and_norm(following, x, self._scaled(y), rate)
        x = x + self._scaled(self._dropped(part, y))
        return x, x if following is None else following(x)

    def replaced(
        self, part: "AttentionPart[Any, Any]", x: Tensor, y: Tensor, following: AnyNorm
    ) -> tuple[Tensor, Tensor]:
        """The stream with a part's output alone, and its norm for the part that follows."""
        y = self._dropped(part, y)
        return y, following(x + y if self.kind.reads_both else y)

    def _scaled(self, y: Tensor) -> Tensor:
        return y if self.kind.factor == 1 else y * self.kind.factor

    def _dropped(self, part: "AttentionPart[Any, Any] | FeedForward", y: Tensor) -> Tensor:
        norm = part.output_norm
        if norm is not None and self.drops_last:
            return dropout(norm(y), self.dropout, part.training)
        y = dropout(y, self.dropout, part.training)
        return y if norm is None else norm(y)


class AttentionPart(nn.Module, ABC, Generic[Kind, ContextT]):
    """Attention of one kind in one layer, with its norms."""

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__()
        self.norm = norm_if_any(table, f"{name}.norm", node.layer(layer).attention_norm)
        self.output_norm = norm_if_any(table, f"{name}.output_norm", node.norm.after("attention"))
        self.own_join = joining_of(table, name, node)
        self.heads = node.layers[layer].heads
        self.dropout = node.dropout.attention
        norm, rate = node.norm, node.dropout.hidden
        self.residual = Residual(norm.residual_free, rate, norm.drops_last, node.residual)

    @abstractmethod
    def prepare(self, kind: Kind, read: AttentionInputs) -> ContextT:
        """Make the context for all layers of this kind, once per pass."""

    @abstractmethod
    def forward(
        self, x_bqh: Float[Tensor, "b q h"], k_bkh: Float[Tensor, "b k h"] | None, context: ContextT
    ) -> Float[Tensor, "b q h"]:
        """New states of the queries ``x``; keys are ``k``, None: ``x``."""


class ProjectedAttention(AttentionPart[Kind, ContextT]):
    """Attention of queries, keys and values, each projected from states, as distillation wants."""

    output: Linear

    def __init__(self, table: Table, name: str, node: Encoder, layer: int) -> None:
        super().__init__(table, name, node, layer)
        self.query = Linear(table, f"{name}.query")
        self.key = Linear(table, f"{name}.key")
        self.value = Linear(table, f"{name}.value")
        kind, gate = node.attention.at(layer), f"{name}.context_gate"
        self.gate: Gate = kind.gate if isinstance(kind, GatedAttention) else "none"
        self.context_gate = None if self.gate == "none" else Linear(table, gate)
        within = node.norm.within("attention")
        self.inner_norm = norm_if_any(table, f"{name}.inner_norm", within)

    def project(
        self, x_bqh: Float[Tensor, "b q h"], k_bkh: Float[Tensor, "b k h"] | None, context: ContextT
    ) -> Projected:
        """Queries of ``x``; keys and values of ``k``, None: of ``x``."""
        if k_bkh is None:
            return Projected(*fused_linear((self.query, self.key, self.value), x_bqh))
        return Projected(self.query(x_bqh), *fused_linear((self.key, self.value), k_bkh))

    @abstractmethod
    def mix(self, projected: Projected, context: ContextT) -> Float[Tensor, "b q w"]:
        """Sums of values of all heads, side by side, for each query."""

    def put_out(
        self, x_bqh: Float[Tensor, "b q h"], mixed_bqw: Float[Tensor, "b q w"]
    ) -> Float[Tensor, "b q h"]:
        """New states of the queries ``x``, from what heads give: gated, normed and mapped."""
        if self.context_gate is not None and self.gate != "none":
            gate_bqw = self.context_gate(x_bqh)
            opened = gate_bqw.sigmoid() if self.gate == "sigmoid" else activate(self.gate, gate_bqw)
            mixed_bqw = mixed_bqw * opened
        if self.inner_norm is not None:
            mixed_bqw = self.inner_norm(mixed_bqw)
        return self.output(mixed_bqw)

    def forward(
        self, x_bqh: Float[Tensor, "b q h"], k_bkh: Float[Tensor, "b k h"] | None, context: ContextT
    ) -> Float[Tensor, "b q h"]:
        mixed_bqw = self.mix(self.project(x_bqh, k_bkh, context), context)
        return self.put_out(x_bqh, mixed_bqw)


class Earlier(NamedTuple):
    """A sum (b, q, h) of earlier outputs, and the number of that of attention, added to it."""

    states: Tensor
    number: Float[Tensor, ""]


class Stream:
    """The outputs of a forward pass so far, from the embeddings ``x`` (b, q, h) on.

    ``numbers`` are the learned ones by name; those of outputs that no part reads again are let go.
    """

    def __init__(self, node: Encoder, numbers: Mapping[str, Tensor], x: Tensor) -> None:
        self.kind, self.depth, self.numbers = node.residual, node.depth, numbers
        self.outputs = [x]

    def read(self, layer: int) -> Float[Tensor, "b q h"]:
        """The states that attention of a layer reads; of one beyond the last, the last norm."""
        sources = self.kind.sources(layer, "attention", self.depth)
        return self._sum(sources, self._shares(layer, "attention")) if sources else self.outputs[-1]

    def earlier(self, layer: int) -> Earlier | None:
        """Earlier outputs that the layer mixes in itself, if any."""
        sources = self.kind.sources(layer, "ffn", self.depth)
        if not sources:
            return None
        *shares, newest = self._shares(layer, "ffn")
        return Earlier(self._sum(sources[:-1], shares), newest)

    def select(self, positions_bo: Int[Tensor, "b o"]) -> None:
        """Go on with the outputs at these positions (b, o) alone."""
        if self.kind.by_part:
            self.outputs = [gather_positions(x, positions_bo) for x in self.outputs]

    def add(self, between: Tensor | None, x: Tensor) -> None:
        """Take up the output of a layer, and that of its attention if needed."""
        if not self.kind.keeps_outputs:
            self.outputs.clear()
        self.outputs += [x] if between is None else [between, x]

    def _shares(self, layer: int, part: SharedPart) -> tuple[Float[Tensor, ""], ...]:
        numbers_j = self.numbers[stream_name(layer, part, self.depth)]
        return (numbers_j.softmax(0) if self.kind.softmax else numbers_j).unbind()

    def _sum(self, sources: tuple[int, ...], shares: Sequence[Tensor]) -> Tensor:
        total: Tensor | None = None
        for source, share in zip(sources, shares, strict=True):
            x = self.outputs[source]
            total = x * share if total is None else torch.addcmul(total, x, share)
        assert total is not None, "a sum has sources"
        return total


class Computed(NamedTuple):
    """New states of a layer; its queries, keys and values, and those of attention, if wanted."""

    states: Tensor
    projected: Projected | None = None
    between: Tensor | None = None


Projects = Literal["no", "too", "alone"]
"""Queries, keys and values of a layer: not wanted, beside its states, or alone."""
Compute = Callable[..., Computed]
"""Attention and feed-forward part of a layer and its inputs to new states: ``compute_layer``."""


class Layer(nn.Module):
    """Both parts of a layer as one module, for FSDP to gather when it is called."""

    def __init__(self, attention: nn.Module, ffn: nn.Module) -> None:
        super().__init__()
        self.attention, self.ffn = attention, ffn

    def forward(self, compute: Compute, *inputs: Any) -> Computed:
        """New states by ``compute``, of both parts and its other inputs."""
        return compute(self.attention, self.ffn, *inputs)


def compute_layer(
    attention: nn.Module,
    ffn: nn.Module,
    x: Tensor,
    keys: Tensor | None,
    context: Context,
    projects: Projects,
    earlier: Earlier | None,
) -> Computed:
    """States (b, q, h) after a layer; ``keys`` (b, k, h) are attended to, None: ``x``."""
    assert isinstance(attention, AttentionPart), "as built by build_attention"
    assert isinstance(ffn, FeedForward), "as built by build_ffn"
    residual, between = attention.residual, None
    with profile_as("attention"):
        y, projected = _attend(attention, x, keys, context, projects)
        if projects == "alone":
            return Computed(x, projected)
        if earlier is not None:
            between, _ = residual.joined(attention, x, y)
            x = torch.addcmul(earlier.states, between, earlier.number)
            read = ffn.norm(x) if residual.free else x
        elif residual.kind.adds:
            x, read = residual.joined(attention, x, y, ffn.norm)
        else:
            x, read = residual.replaced(attention, x, y, ffn.norm)
    with profile_as("ffn"):
        return Computed(residual.joined(ffn, x, ffn(read))[0], projected, between)


def _attend(
    part: AttentionPart[Any, Any],
    x: Tensor,
    keys: Tensor | None,
    context: Context,
    projects: Projects,
) -> tuple[Tensor, Projected | None]:
    """The output of the part; ``x`` where only its projections are wanted."""
    read = x
    if part.residual.free and part.norm is not None:
        read, keys = part.norm(x), None if keys is None else part.norm(keys)
    if projects == "no":
        return part(read, keys, context), None
    assert isinstance(part, ProjectedAttention), "the checks see to such attention"
    projected = part.project(read, keys, context)
    if projects == "alone":
        return x, projected
    return part.put_out(read, part.mix(projected, context)), projected
