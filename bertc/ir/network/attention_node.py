"""The base of all attention kinds, and of those by content."""

import math
from abc import abstractmethod
from dataclasses import replace
from itertools import chain
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import Axis, Dim, Drawn, Node, Normal, On, Weight, affine
from bertc.ir.blocks import in_blocks
from bertc.ir.network.norm import LayerNorm, RmsNorm
from bertc.ir.network.positions import Distances, Ranges

Gate = Literal["none", "gelu", "sigmoid"]


class AttentionNode(Node):
    """The base of attention kinds; their abilities are none by default.

    ``projects``: its module gives queries, keys and values (``ProjectedAttention``).
    ``takes_positions``: positions may turn its queries and keys, or bias its scores. ``distances``:
    what follows where scores depend on the distance between query and key. ``system``: the one that
    introduced it, whose recipes a network with it follows.
    """

    projects: ClassVar[bool] = False
    takes_positions: ClassVar[bool] = False
    distances: ClassVar[Distances | None] = None
    system: ClassVar[Literal["deberta"] | None] = None

    def at(self, layer: int) -> Self:
        """The attention of one layer; a kind may differ between layers."""
        return self

    @property
    def reach(self) -> int | None:
        """Tokens on each side that a query attends to, beside its own; None: all."""
        return None

    @property
    def ranges(self) -> Ranges | None:
        """Its table of distances, if it has one."""
        return None

    @property
    def content_alone(self) -> bool:
        """True if scores are scaled products of queries and keys, of all tokens."""
        return False

    @property
    def ties_biases(self) -> bool:
        """True if layers share what heads have, so that all need as many."""
        common = self.common_weights(op.Widths(1, 1, 1, 1), Normal())
        return any("heads" in weight.axes for weight in common)

    @property
    def shares_keys(self) -> bool:
        """True if several heads of queries have the same keys and values."""
        return False

    @property
    def compares_segments(self) -> bool:
        """True if it distinguishes any number of segments, without a table."""
        return False

    @abstractmethod
    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """The weights of one layer."""

    def common_weights(self, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """Weights that all layers use, independent of sharing: none."""
        return ()

    def projections(self, widths: op.Widths, call: op.Call) -> op.Operations:
        """The operations that make its queries, keys and values, for a kind that ``projects``."""
        return query_key_value(widths, call)

    @abstractmethod
    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        """The operations of one layer, without its norm and residual branch; ``rate``: dropout."""

    def shared_operations(self, call: op.Call) -> op.Operations:
        """Operations done once for all layers with these queries: none."""
        return ()

    def common_operations(self, widths: op.Widths) -> op.Operations:
        """Operations on ``common_weights`` once a forward pass: none."""
        return ()


class GatedAttention(AttentionNode):
    """The base of kinds that may multiply what heads give by ``gate`` of a map of what they read.

    GPT-BERT (model_extra.py, in_proj_vg) with GELU; with a sigmoid Qiu et al. 2025 (G1).
    """

    gate: Annotated[Gate, Field(exclude_if="none".__eq__)] = "none"

    def gate_weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """The map of the gate, if any."""
        outer: Dim = ("hidden", widths.hidden)
        maps = affine(f"{name}.context_gate", ("heads", widths.inner), outer, init, "attention")
        return () if self.gate == "none" else maps

    def gate_operations(
        self, widths: op.Widths, call: op.Call
    ) -> tuple[op.Operations, op.Operations]:
        """The operations of the gate before those of attention, and before its output map."""
        if self.gate == "none":
            return (), ()
        values = call.states * widths.inner
        function: op.Function = "tanh" if self.gate == "sigmoid" else self.gate
        # A sigmoid costs what tanh does; a product outside of kernels what a sum does, and it saves
        # both factors.
        made = op.Product(call.states, widths.hidden, widths.inner, keeps_rows=False)
        opened = op.Pointwise(function, values, 0 if function == "tanh" else values)
        return (made,), (opened, op.Pointwise("add", values, kept=2 * values))


class ContentAttention(GatedAttention):
    """softmax(Q K^T / sqrt(head_dim)) V, of all tokens or of near ones.

    ``kv_heads``: heads of keys and values, each for several heads of queries (Ainslie et al. 2023);
    0: as many as of queries. With a ``norm``, which has a scale alone, queries and keys are
    normalised before positions turn them: each ``head`` by itself (Qwen3, q_norm and k_norm), or
    ``over`` the whole ``width`` (ESM C).
    """

    projects: ClassVar[bool] = True
    takes_positions: ClassVar[bool] = True
    kv_heads: Annotated[int, Field(ge=0, le=10_000, exclude_if=not_)] = 0
    bias: On = True
    norm: Annotated[Literal["none", "layer", "rms"], Field(exclude_if="none".__eq__)] = "none"
    over: Annotated[Literal["head", "width"], Field(exclude_if="head".__eq__)] = "head"

    @model_validator(mode="after")
    def _has_a_norm(self) -> Self:
        if self.over != "head" and self.norm == "none":
            raise ValueError(f"over = {self.over} is of a norm, and there is none", "norm=layer")
        return self

    @property
    def content_alone(self) -> bool:
        return self.reach is None

    @property
    def shares_keys(self) -> bool:
        return self.kv_heads > 0

    def key_heads(self, heads: int) -> int:
        """Heads of keys and values beside ``heads`` of queries.

        A generator with heads of its own has the most that divide both numbers.
        """
        return math.gcd(self.kv_heads, heads)

    def norm_of_keys(self, eps: float) -> LayerNorm | RmsNorm | None:
        """The norm of keys, and that of queries, if there are norms."""
        if self.norm == "none":
            return None
        return RmsNorm(eps=eps) if self.norm == "rms" else LayerNorm(eps=eps, bias=False)

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        maps = projection_weights(name, widths, init, self.key_heads(widths.heads))
        maps = maps if self.bias else maps[::2]
        norm = self.norm_of_keys(1)
        if norm is None:
            return maps
        of_norms = (norm.weights(f"{name}.{part}", *dim) for part, dim, _ in self._normed(widths))
        return (*maps, *chain.from_iterable(of_norms))

    def _normed(self, w: op.Widths) -> tuple[tuple[str, Dim, int], tuple[str, Dim, int]]:
        """Name, axis and width of both norms, and how many vectors of a state they normalise."""
        many = self.key_heads(w.heads)
        if self.over == "head":
            head: Dim = ("head_dim", w.head_dim)
            return ("query_norm", head, w.heads), ("key_norm", head, many)
        keys: Axis = "heads" if many == w.heads else "kv_heads"
        return ("query_norm", ("heads", w.inner), 1), ("key_norm", (keys, many * w.head_dim), 1)

    def gate_weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        return super().gate_weights(name, widths, init)[: 1 + self.bias]

    def projections(self, widths: op.Widths, call: op.Call) -> op.Operations:
        w, many, norm = widths, self.key_heads(widths.heads), self.norm_of_keys(1)
        read = zip((call.states, call.context), self._normed(w), strict=True)
        norms = (norm.operation(n * times, dim[1]) for n, (_, dim, times) in read if norm)
        maps = query_key_value(w, call, many * w.head_dim, joined=norm is None)
        return (
            *maps,
            *norms,
            *((op.Copy(2 * call.context * w.inner),) if many < w.heads else ()),
        )

    def operations(self, widths: op.Widths, call: op.Call, rate: float) -> op.Operations:
        w, outputs = widths, call.states
        if call.query_states:
            mask: op.Mask = "targets"
        elif call.memory:
            mask = "pairs"
        else:
            mask = "causal" if call.causal else "keys"
            if self.reach is not None and in_blocks(call.keys, self.reach):
                call = call.of_all_states()
        return (
            *self.projections(w, call),
            op.Attention(
                call.rows, call.queries, call.keys, w.heads, w.head_dim, rate > 0, mask,
                call.sequences, self.reach,
            ),
            op.Product(outputs, w.inner, w.hidden, names=("output",)),
        )  # fmt: skip


def projection_weights(name: str, w: op.Widths, init: Drawn, key_heads: int) -> tuple[Weight, ...]:
    """Maps to queries, keys and values, and the output map, each followed by its bias."""
    outer: Dim = ("hidden", w.hidden)
    inner: Dim = ("heads", w.inner)
    narrow: Axis = "heads" if key_heads == w.heads else "kv_heads"
    keys: Dim = (narrow, key_heads * w.head_dim)
    maps = (("query", inner, outer), ("key", keys, outer), ("value", keys, outer))
    return tuple(
        weight
        for part, outputs, inputs in (*maps, ("output", outer, inner))
        for weight in affine(f"{name}.{part}", outputs, inputs, init, "attention")
    )


def query_key_value(
    w: op.Widths, call: op.Call, key_width: int = 0, joined: bool = True
) -> op.Operations:
    """Projections to queries, keys and values: one product if all three read the same states.

    ``key_width`` is that of keys and of values, 0: as wide as queries. Without ``joined`` each is a
    product of its own.
    """
    pair = 2 * (key_width or w.inner)
    if not joined:
        query = op.Product(call.states, w.hidden, w.inner, names=("query",))
        key = op.Product(call.context, w.hidden, pair // 2, keeps_rows=call.selects, names=("key",))
        return query, key, replace(key, keeps_rows=False, names=("value",))
    if not call.selects:
        names = ("query", "key", "value")
        return (op.Product(call.context, w.hidden, w.inner + pair, maps=3, names=names),)
    return (
        op.Product(call.states, w.hidden, w.inner, names=("query",)),
        op.Product(call.context, w.hidden, pair, maps=2, names=("key", "value")),
    )
