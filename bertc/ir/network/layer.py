"""A layer of an encoder: attention and a feed-forward part, each with norms and a residual."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Dim, Initializer, Node, Probability, Weight, Width
from bertc.ir.methods.adapter import Adapter
from bertc.ir.network.attention import Attention
from bertc.ir.network.attention_node import GatedAttention
from bertc.ir.network.ffn import Ffn
from bertc.ir.network.norm import Norm, NormFunction
from bertc.ir.network.positions import Positions
from bertc.ir.network.residual import OwnResidual, Residual
from bertc.ir.network.sharing import OUTPUTS, SharedPart


class LayerWidths(Node):
    """The widths of one layer; layers may differ."""

    heads: Annotated[int, Field(ge=1, le=10_000)]
    head_dim: Width
    ffn: Width


def one_or_all(layers: tuple[LayerWidths, ...], width: str) -> int | tuple[int, ...]:
    """A width of layers: one number if it is that of all, or one per layer."""
    alike = layers.count(layers[0]) == len(layers)  # quick of the same one
    widths = tuple(getattr(layer, width) for layer in (layers[:1] if alike else layers))
    return widths if len({*widths}) > 1 else widths[0]


class Dropout(Node):
    """Dropout rates in training; a bare number sets both ``hidden`` and ``attention``."""

    # BERT config hidden_dropout_prob: embeddings and both residual branches
    hidden: Probability = 0.1
    attention: Probability = 0.1  # BERT config attention_probs_dropout_prob
    ffn: Probability = 0.0  # after the activation (Transformer-XL, XLNet)
    last: Probability = 0.0  # output of the last layer (Transformer-XL, XLNet)
    positional = ("hidden", "attention", "ffn", "last")
    bare_number = ("hidden", "attention")


@dataclass(frozen=True)
class EncoderLayer:
    """A layer; those of one encoder differ in both parts, widths and the norm of attention.

    ``attention_norm``: of what attention reads, or of its sum; a first layer may have none.
    """

    attention: Attention
    widths: op.Widths
    attention_norm: NormFunction | None
    ffn: Ffn
    norm: Norm = field(compare=False)
    positions: Positions = field(compare=False)
    rates: Dropout = field(compare=False)
    adapter: Adapter = field(compare=False)
    residual: Residual

    def weights(self, part: SharedPart, name: str, init: Initializer) -> tuple[Weight, ...]:
        kind = self.attention if part == "attention" else self.ffn
        norm = self.attention_norm if part == "attention" else self.norm.of_layers
        width: Dim = ("hidden", self.widths.hidden)
        after, within = self.norm.after(part), self.norm.within(part)
        read, gate = self._read_last(part), list[Weight]()
        if part == "attention" and isinstance(self.attention, GatedAttention):
            gate += self.attention.gate_weights(name, self.widths, init)
        if part == "attention":
            gate += self.positions.layer_weights(name, self.widths)
        return (
            *self.adapter.weights((*kind.weights(name, self.widths, init), *gate)),
            *(within.weights(f"{name}.inner_norm", *read) if within else ()),
            *(norm.weights(f"{name}.norm", *width) if norm else ()),
            *(after.weights(f"{name}.output_norm", *width) if after else ()),
            *self.residual.part_weights(name, self.widths),
        )

    def operations(self, call: op.Call) -> dict[SharedPart, op.Operations]:
        hidden, rates = self.widths.hidden, self.rates
        adapted = self.adapter.operations
        first: op.Operations = ()
        gated: op.Operations = ()
        if isinstance(self.attention, GatedAttention):
            first, gated = self.attention.gate_operations(self.widths, call)
        *maps, output = self.attention.operations(self.widths, call, rates.attention)
        normed = self._within("attention", call)
        attention = adapted((*first, *maps, *gated, *normed, output))
        attention = self.positions.in_layer(attention, self.widths, call)
        *maps, output = self.ffn.operations(self.widths, call, rates.ffn)
        ffn = adapted((*maps, *self._within("ffn", call), output))
        function = self.norm.of_layers
        added = self.residual.joined(self.widths, call)
        if not self.norm.residual_free and isinstance(self.residual, OwnResidual):
            joined = (*added, function.operation(call.states, hidden))
            return {"attention": (*attention, *joined), "ffn": (*ffn, *joined)}
        if not self.norm.residual_free:
            norm = function.operation(call.states, hidden, residual=True, dropout=rates.hidden > 0)
            joined = (*added[:-1], norm)  # with the sum
            return {"attention": (*attention, *joined), "ffn": (*ffn, *joined)}
        # With queries that are other states, or a subset, keys are normalised separately.
        keys = function.operation(call.context, hidden, keeps_input=call.queries < call.keys)
        before = function.operation(call.states, hidden)
        dropped = (op.Dropout(call.states, hidden),) if rates.hidden else ()
        norms = {
            part: (norm.operation(call.states, hidden),) if norm else ()
            for part in OUTPUTS
            for norm in [self.norm.after(part)]
        }
        read = (*((keys,) if call.selects else ()), before) if self.attention_norm else ()
        adds = added if self.residual.adds else ()
        return {
            "attention": (*read, *attention, *dropped, *norms["attention"], *adds),
            "ffn": (before, *ffn, *dropped, *norms["ffn"], *added),
        }

    def _read_last(self, part: SharedPart) -> Dim:
        """The axis and width of what the last map of a part reads."""
        return ("heads", self.widths.inner) if part == "attention" else ("ffn", self.widths.ffn)

    def _within(self, part: SharedPart, call: op.Call) -> op.Operations:
        norm, width = self.norm.within(part), self._read_last(part)[1]
        return (norm.operation(call.states, width),) if norm else ()

    def projections(self, call: op.Call) -> op.Operations:
        operations = self.adapter.operations(self.attention.projections(self.widths, call))
        operations = self.positions.in_layer(operations, self.widths, call)
        norm: op.Operations = ()
        if self.norm.residual_free and self.attention_norm:
            norm = (self.attention_norm.operation(call.states, self.widths.hidden),)
        return (*norm, *operations)
