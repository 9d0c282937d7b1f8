"""The base of all attention kinds."""

from typing import ClassVar, Self

from bertc.ir import operation as op
from bertc.ir.base import Axis, Drawn, Node, Weight, affine


class AttentionNode(Node):
    """The base of attention kinds; defaults here are those of full attention, or nothing.

    ``projects``: its module gives queries, keys and values (``ProjectedAttention``).
    ``content_alone``: its scores are scaled products of queries and keys. ``knows_distances``:
    scores depend on the distance between query and key, so position embeddings are not needed and
    rows may have a memory. ``knows_directions``: rows may be reversed. ``clamps``: it has a
    ``clamp`` that evaluation may set. ``varying_steps``: what its module computes depends on the
    length of a row in more than sizes.
    """

    projects: ClassVar[bool] = False
    content_alone: ClassVar[bool] = False
    knows_distances: ClassVar[bool] = False
    knows_directions: ClassVar[bool] = False
    clamps: ClassVar[bool] = False
    varying_steps: ClassVar[bool] = False

    def at(self, layer: int) -> Self:
        """The attention of one layer; a kind may differ between layers."""
        return self

    @property
    def ties_biases(self) -> bool:
        """True if all layers add the same biases to their queries."""
        return False

    @property
    def compares_segments(self) -> bool:
        """True if it distinguishes any number of segments, without a table."""
        return False

    def weights(self, name: str, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """Query, key and value maps (hidden -> heads x head_dim) and the output map back."""
        inner: tuple[Axis, int] = ("heads", widths.inner)
        outer: tuple[Axis, int] = ("hidden", widths.hidden)
        return (
            *affine(f"{name}.query", inner, outer, init, "attention"),
            *affine(f"{name}.key", inner, outer, init, "attention"),
            *affine(f"{name}.value", inner, outer, init, "attention"),
            *affine(f"{name}.output", outer, inner, init, "attention"),
        )

    def common_weights(self, widths: op.Widths, init: Drawn) -> tuple[Weight, ...]:
        """Weights that all layers use, independent of sharing: none."""
        return ()

    def operations(self, widths: op.Widths, call: op.Call, dropout: bool) -> op.Operations:
        """The operations of one layer, without its norm and residual branch."""
        w, inner = widths, widths.inner
        if call.query_states:
            mask: op.Mask = "targets"
        elif call.memory:
            mask = "pairs"
        else:
            mask = "causal" if call.causal else "keys"
        return (
            *query_key_value(w, call),
            op.Attention(
                call.rows, call.queries, call.keys, w.heads, w.head_dim, dropout, mask,
                call.sequences,
            ),
            op.Product(call.states, inner, w.hidden),
        )  # fmt: skip

    def shared_operations(self, call: op.Call) -> op.Operations:
        """Operations done once for all layers: none."""
        return ()


def query_key_value(w: op.Widths, call: op.Call) -> op.Operations:
    """Projections to queries, keys and values: one product if all three read the same states."""
    if not call.selects:
        return (op.Product(call.context, w.hidden, 3 * w.inner, maps=3),)
    return (
        op.Product(call.states, w.hidden, w.inner),
        op.Product(call.context, w.hidden, 2 * w.inner, maps=2),
    )
