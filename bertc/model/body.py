"""The interface of a body's module, whatever it computes with, and names of parts of a step.

Axes: b batch, s sequence, o output positions, u query-stream states, h hidden, q queries, k keys,
w widths of all heads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import profiler
from torch.utils.checkpoint import checkpoint

from bertc.ir.network.bilstm import AboveTable
from bertc.ir.network.body_node import BodyNode, Wanted
from bertc.model.embeddings import Tokens, build_tokens
from bertc.model.inputs import EncoderInputs, Memory, gather_positions
from bertc.model.native.kernels import dropout
from bertc.model.weights import Table

PartName = Literal[
    "embeddings", "attention", "ffn", "recurrence", "layers", "head", "teacher", "optimiser",
    "loader",
]  # fmt: skip
"""``layers``: attention and feed-forward parts that were compiled as one; ``teacher``: all parts
of frozen networks."""


def profile_as(name: PartName) -> AbstractContextManager[Any]:
    """Call what the block does a part of the step; does nothing where no profiler watches."""
    # A compiled layer is one operation; the flag would be guarded, and a profile compile it again.
    if torch.compiler.is_compiling() or not profiler._is_profiler_enabled:
        return nullcontext()
    return profiler.record_function(name)


class Projected(NamedTuple):
    """Queries, keys and values of a layer, all heads side by side; keys may begin with a memory."""

    queries: Float[Tensor, "b q w"]
    keys: Float[Tensor, "b k w"]
    values: Float[Tensor, "b k w"]

    def of_row(self, seq: int) -> "Projected":
        """The part of the row's own tokens, without memory and query stream."""
        return Projected(self.queries[:, :seq], self.keys[:, -seq:], self.values[:, -seq:])


class Outputs(NamedTuple):
    """The outputs of a network."""

    last: Tensor  # (b, s, h), or (b, o, h) at output positions; of the last computed layer
    memory: Memory | None = None  # for the next rows, if these had one
    by_layer: Mapping[int, Tensor] | None = None  # (b, s, h) after each wanted layer
    projections: Mapping[int, Projected] | None = None  # of each layer that they are wanted of
    decoded: Tensor | None = None  # (b, s, h), or (b, o, h), of the mask decoder


LAST = Wanted()
"""Last states alone."""


class BodyModule(nn.Module, ABC):
    """The module of a body; parameters are named as in the weight table of its node."""

    node: BodyNode
    __call__: Callable[..., Outputs]
    recompute: bool = False  # save the inputs of layers only, and compute the rest again
    pooler: Any

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """The token table, or tables, which heads over the vocabulary read too."""

    @abstractmethod
    def forward(self, inputs: EncoderInputs, dtype: torch.dtype, request: Wanted = LAST) -> Outputs:
        """States of the last layer, followed by those of the query stream: (b, s + u, h).

        Other outputs are computed only if asked for, and layers only if any of these needs them.
        """

    def pool(self, first_h: Tensor, inputs: EncoderInputs | None = None) -> Tensor:
        """Pooled states of first tokens (..., h), or one state a row (b, 1, p) of all states."""
        if self.pooler is None:
            raise ValueError("this encoder has no pooler (pooler=false)")
        real_bs = None if inputs is None else inputs.attention_mask
        return cast(Tensor, self.pooler.of_rows(first_h, real_bs))

    def borrow(self, lender: "BodyModule", names: Iterable[str], *, added: bool) -> None:
        """Use weights of ``lender`` by these names without registering them; ``added``: in sums."""
        raise ValueError(f"a {self.node.body_kind} shares no weights with another network")

    @abstractmethod
    def shard_units(self) -> Iterable[nn.Module]:
        """The modules that FSDP gathers when they are called; what several share stays gathered."""

    def compile_regions(self, *, any_shape: bool = False) -> None:  # noqa: B027
        """Compile its functions, if any; ``any_shape``: for any number of rows and tokens."""


class BodyAboveTable(BodyModule):
    """A body whose embeddings are one token table, or tables, and no more."""

    node: AboveTable
    recurrence: nn.ModuleList

    def __init__(self, node: AboveTable, table: Table) -> None:
        super().__init__()
        self.node = node
        self.embeddings = nn.ModuleDict({"token": build_tokens(table, node)})

    @property
    def tokens(self) -> Tokens:
        return cast(Tokens, self.embeddings["token"])

    @abstractmethod
    def beside(self, inputs: EncoderInputs) -> Any:
        """The inputs of layers, besides states."""

    def forward(self, inputs: EncoderInputs, dtype: torch.dtype, request: Wanted = LAST) -> Outputs:
        """States of the last layer (b, s, h), or at output positions (b, o, h)."""
        rate, beside = self.node.dropout, self.beside(inputs)
        with profile_as("embeddings"):
            x = dropout(self.tokens(inputs.token_ids).to(dtype), rate.hidden, self.training)
        by_layer = {0: x} if 0 in request.states else {}
        for number, layer in enumerate(self.recurrence[: request.whole_layers(self.node.depth)]):
            with profile_as("recurrence"):
                x = dropout(x, rate.hidden, self.training) if number else x
                if self.recompute and torch.is_grad_enabled():
                    x = checkpoint(layer, x, beside, use_reentrant=False)
                else:
                    x = layer(x, beside)
            if number + 1 in request.states:
                by_layer[number + 1] = x
        x = dropout(x, rate.last, self.training)
        if inputs.output_positions is not None:
            x = gather_positions(x, inputs.output_positions)
        return Outputs(x, by_layer=by_layer)

    def shard_units(self) -> Iterable[nn.Module]:
        """Every layer."""
        return self.recurrence
