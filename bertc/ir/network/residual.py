"""Kinds of the residual stream: what a part reads of all that was computed before it.

Outputs are numbered: 0 is that of the embeddings, then comes one of each layer, or of each part.
A part reads a sum of some, weighted by learned numbers that belong to its place, not to its layer's
weights: layers that share those read other sums.
"""

import math
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Constant, Node, Off, Weight
from bertc.ir.network.sharing import OUTPUTS, SharedPart
from bertc.ir.own import Own, sizes_of

UNSCALED = 36
"""Layers of a network whose branches are added as they are (ESM C, residue_scaling_factor)."""


class _Residual(Node):
    """The base of kinds: by default a part reads the newest output, to which its own is added.

    ``by_part``: outputs are those of each part. ``adds``: attention adds to what it reads.
    ``softmax``: of the numbers.
    """

    keeps_outputs: ClassVar[bool] = True
    by_part: ClassVar[bool] = False
    adds: ClassVar[bool] = True
    softmax: ClassVar[bool] = False

    @property
    def factor(self) -> float:
        """The number that multiplies what a part adds."""
        return 1.0

    def sources(self, layer: int, part: SharedPart, depth: int) -> tuple[int, ...]:
        """The outputs that a part sums, the newest last; attention of ``depth``: the last norm."""
        return ()

    @property
    def reads_both(self) -> bool:
        """True if without that sum the feed-forward part still reads it."""
        return False

    def part_weights(self, name: str, widths: op.Widths) -> tuple[Weight, ...]:
        """Weights that join the output of a part to what it read: none."""
        return ()

    def joined(self, widths: op.Widths, call: op.Call) -> op.Operations:
        """The operations that do so."""
        return (op.Pointwise("add", call.states * widths.hidden),)

    def begins(self) -> Constant:
        """The first values of numbers."""
        return Constant(value=0.0, last=1.0)

    def weights(self, depth: int) -> tuple[Weight, ...]:
        """The numbers, a vector for each place that reads a sum; never decayed."""
        counts = {
            stream_name(layer, part, depth): len(self.sources(layer, part, depth))
            for layer, part in product(range(depth + 1), OUTPUTS)
        }
        return tuple(
            Weight(name, (many,), ("outputs",), self.begins(), "attention", "norm")
            for name, many in counts.items()
            if many
        )

    def operations(
        self, layer: int, part: SharedPart, depth: int, call: op.Call, widths: op.Widths
    ) -> op.Operations:
        """The sum that a part reads, for which backward needs the newest output."""
        many = len(self.sources(layer, part, depth))
        all_read = part == "attention" and layer < depth
        states = call.of_all_states().states if all_read else call.states
        return (op.Mixture(many, states, widths.hidden),) if many else ()


class PlainResidual(_Residual):
    """x + f(x), for attention and the feed-forward part in turn (Vaswani et al. 2017, 3.1).

    f(x) is divided by sqrt(``depth`` / 36), ``depth`` the number of layers in ESM C. As a number of
    its own it stays where layers are added.
    """

    kind: Literal["plain"] = "plain"
    keeps_outputs = False
    depth: Annotated[int, Field(ge=1, le=1000, exclude_if=UNSCALED.__eq__)] = UNSCALED
    positional = ("depth",)

    @property
    def factor(self) -> float:
        return math.sqrt(UNSCALED / self.depth)

    def joined(self, widths: op.Widths, call: op.Call) -> op.Operations:
        scaled = op.Pointwise("multiply", call.states * widths.hidden)
        return (scaled,) * (self.depth != UNSCALED) + super().joined(widths, call)


class Elc(_Residual):
    """Each layer reads a sum of all outputs before it, weighted by a softmax (ELC-BERT).

    Charpentier and Samuel 2023, section 3. Nothing is added to what attention gives; the
    feed-forward part adds to that. Numbers begin with 1 for the newest output and 0 for all others;
    layer 0 has none, as the softmax of one number is 1.
    ``zero``: all begin with 0, and the feed-forward part reads its sum with what attention read
    (models/model_elc_bert_zero.py).
    """

    kind: Literal["elc"] = "elc"
    zero: Off = False
    adds = False
    softmax = True

    @property
    def reads_both(self) -> bool:
        return self.zero

    def begins(self) -> Constant:
        return Constant(value=0.0) if self.zero else super().begins()

    def sources(self, layer: int, part: SharedPart, depth: int) -> tuple[int, ...]:
        return tuple(range(layer + 1)) if part == "attention" and 0 < layer < depth else ()


class Dwa(_Residual):
    """Each part reads a weighted sum of the outputs of all before it (DenseFormer; GPT-BERT).

    Pagliardini et al. 2024, section 2, after attention and feed-forward parts as in GPT-BERT
    (model_extra.py, DWAModules). Numbers begin with 1 for the newest output and 0 for all others.
    """

    kind: Literal["dwa"] = "dwa"
    by_part = True

    def sources(self, layer: int, part: SharedPart, depth: int) -> tuple[int, ...]:
        before = 2 * layer + (part == "ffn")
        return tuple(range(before + 1)) if before and before <= 2 * depth else ()

    def operations(
        self, layer: int, part: SharedPart, depth: int, call: op.Call, widths: op.Widths
    ) -> op.Operations:
        """The sums, and the outputs at the positions that go on in the last layer."""
        sums = super().operations(layer, part, depth, call, widths)
        if part == "ffn" or layer == depth or call.queries >= call.tokens:
            return sums
        return (*sums, op.Copy((2 * layer + 1) * call.states * widths.hidden, kept=True))


class OwnResidual(_Residual, Own):
    """A module of the user's own, from what a part read and what it made to the new states."""

    kind: Literal["own"] = "own"
    keeps_outputs = False

    def part_weights(self, name: str, widths: op.Widths) -> tuple[Weight, ...]:
        return tuple(self.own_weights(f"{name}.own_join", sizes_of(widths), "norm"))

    def joined(self, widths: op.Widths, call: op.Call) -> op.Operations:
        return self.own_operations(sizes_of(widths), call.rows, call.queries)


Residual = Annotated[PlainResidual | Elc | Dwa | OwnResidual, BY_KIND]
"""The closed union of residual streams."""
PLAIN_STREAM = PlainResidual()


def stream_name(layer: int, part: SharedPart, depth: int) -> str:
    """The name of the numbers of a place; above all layers it has no number."""
    return f"residual.{layer}.{part}" if layer < depth else f"residual.last.{part}"
