"""The encoder: embeddings, layers of attention and feed-forward parts, final norm.

Axes: b batch, s sequence, q queries, k keys, o output positions, u query-stream states, h hidden.
"""

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertc.ir.methods.adapter import Lora
from bertc.ir.network.body_node import Wanted
from bertc.ir.network.encoder import DECODER, Encoder as EncoderNode, decoder_positions
from bertc.model.attention.kinds import build_attention
from bertc.model.attention.masks import OF_ALL_QUERIES
from bertc.model.body import LAST, BodyModule, Outputs, Projected, profile_as
from bertc.model.embeddings import Embeddings, Tokens
from bertc.model.ffn import build_ffn
from bertc.model.heads import Pooler
from bertc.model.inputs import AttentionInputs, EncoderInputs, gather_positions
from bertc.model.layer import AttentionPart, Compute, Context, Layer, Stream, compute_layer
from bertc.model.native.kernels import dropout
from bertc.model.norm import norm_if_any
from bertc.model.positions import LearnedPositions
from bertc.model.weights import Linear, add_parameters

Regions = tuple[Callable[..., Tensor], Compute, Callable[[Tensor], Tensor]]
"""The embeddings, a layer and the last norm."""


class Encoder(BodyModule):
    """Token ids (b, s) to states (b, s, h); layers that own no part apply that of its owner."""

    node: EncoderNode

    def __init__(self, node: EncoderNode) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = Embeddings(table, node)
        streams = node.residual.weights(node.depth)
        add_parameters(self, (*node.common_weights(), *streams))
        self._common = [weight.name for weight in node.common_weights()]
        self._of_stream = [weight.name for weight in streams]
        kinds = [node.attention.at(layer) for layer in range(node.depth)]
        self._first_of_kind = [kinds.index(kind) for kind in kinds]
        self.attention, self.ffn = nn.ModuleDict(), nn.ModuleDict()
        for layer in sorted({*node.attention_owner}):
            self.attention[str(layer)] = build_attention(table, f"attention.{layer}", node, layer)
        for layer in sorted({*node.ffn_owner}):
            self.ffn[str(layer)] = build_ffn(table, f"ffn.{layer}", node)
        # Not registered: the names of weights are those of the parts.
        owners = zip(node.attention_owner, node.ffn_owner, strict=True)
        self._layers = tuple(Layer(self.attention[str(a)], self.ffn[str(f)]) for a, f in owners)
        self.norm = norm_if_any(table, "norm", node.norm.of_end)
        decoder = decoder_positions(node)
        self.decoder_positions = LearnedPositions(table, DECODER, decoder) if decoder else None
        self.pooler = Pooler(table, node) if node.pooler else None
        if isinstance(node.adapt, Lora):
            for module in self.modules():
                if isinstance(module, Linear):
                    module.pair = node.adapt
        self._regions = self._plain()

    @property
    def tokens(self) -> Tokens:
        """The token table of the embeddings."""
        return self.embeddings.token

    def forward(self, inputs: EncoderInputs, dtype: torch.dtype, request: Wanted = LAST) -> Outputs:
        """States after the last layer and norm (b, s + u, h), or at output positions (b, o, h)."""
        embed, compute, last_norm = self._regions
        if self.recompute and torch.is_grad_enabled():
            compute = partial(checkpoint, compute, use_reentrant=False)
        with profile_as("embeddings"):
            x = embed(inputs.asked(None, None)._replace(starts=None), dtype)
        with profile_as("attention"):
            contexts = self._contexts(inputs, x)
        by_layer, projections = {0: x} if 0 in request.states else {}, dict[int, Projected]()
        memory, remembered = inputs.memory, list[Tensor]()
        depth, computed = self.node.depth, request.whole_layers(self.node.depth)
        below, numbers = x, {name: attrgetter(name)(self) for name in self._of_stream}
        stream = Stream(self.node, numbers, x)
        for number, layer in enumerate(self._layers[: computed + request.projects_next(depth)]):
            x = stream.read(number)
            below = x if number == depth - 1 else below
            keys, context = inputs.keys(x, number), contexts[number]
            if memory is not None and keys is not None:
                remembered.append(memory.kept(keys))
            if inputs.output_positions is not None and number == depth - 1:
                context = context.select_queries(inputs, inputs.output_positions)
                x, keys = gather_positions(x, inputs.output_positions), x if keys is None else keys
                stream.select(inputs.output_positions)
            also = "too" if number + 1 in request.projections else "no"
            also = also if number < computed else "alone"
            x, projected, between = layer(compute, x, keys, context, also, stream.earlier(number))
            stream.add(between, x)
            if projected is not None:
                projections[number + 1] = projected.of_row(inputs.token_ids.shape[1])
            if number + 1 in request.states and number + 1 < depth:
                by_layer[number + 1] = x
        moved_on = memory.moved_on(remembered, inputs.token_ids.shape[1]) if memory else None
        decoded = None
        if request.decoded:
            read = below if computed + request.projects_next(depth) == depth else x
            decoded = last_norm(self._decoded(compute, read, inputs, contexts[-1]))
            decoded = dropout(decoded, self.node.dropout.last, self.training)
        x = x if computed < depth else stream.read(depth)
        x = x if self.norm is None or computed < depth else last_norm(x)
        if depth in request.states:
            by_layer[depth] = x
        x = dropout(x, self.node.dropout.last, self.training)
        return Outputs(x, moved_on, by_layer, projections, decoded)

    def _decoded(
        self, compute: Compute, below: Tensor, inputs: EncoderInputs, context: Context
    ) -> Tensor:
        """States (b, o, h) of the mask decoder, from those below the last layer (b, s, h).

        That layer is applied twice with these as keys and values (He et al. 2021, 3.2). Its first
        queries are they and absolute positions, the second ones what it made of the first
        (microsoft/DeBERTa, masked_language_model.py).
        """
        assert self.decoder_positions is not None, "the network has a mask decoder"
        keys, at_bo = inputs.keys(below, self.node.depth - 1), inputs.decoded_positions
        x = below + self.decoder_positions.added(below, inputs).to(below.dtype)
        late = isinstance(context.mask, OF_ALL_QUERIES)
        if at_bo is not None and not late:
            context = context.select_queries(inputs, at_bo)
            x = gather_positions(x, at_bo)
        for _ in range(2):
            read = below if keys is None else keys
            x = self._layers[-1](compute, x, read, context, "no", None).states
        return gather_positions(x, at_bo) if at_bo is not None and late else x

    def borrow(self, lender: BodyModule, names: Iterable[str], *, added: bool) -> None:
        """Use a lender's embeddings for these names instead of its own, or in sums with them."""
        assert isinstance(lender, Encoder), "tied networks are of the same kind"
        parts = dict.fromkeys(name.removeprefix("embeddings.").split(".")[0] for name in names)
        (self.embeddings.add if added else self.embeddings.borrow)(lender.embeddings, parts)

    def shard_units(self) -> Iterable[nn.Module]:
        """The layers; parts that several share are in each of them, as is one applied again."""
        return (*self._layers, *self._layers[-1:]) if self.decoder_positions else self._layers

    def _contexts(self, inputs: EncoderInputs, x: Tensor) -> list[Context]:
        """The context of every layer, made once per kind."""
        inputs = inputs._replace(causal=inputs.causal or self.node.causal)
        shared = {name: attrgetter(name)(self) for name in self._common}
        read = AttentionInputs(inputs, x, shared)
        contexts: list[Context] = []
        for number, first in enumerate(self._first_of_kind):
            if first < number:
                contexts.append(contexts[first])
                continue
            part = self.attention[str(self.node.attention_owner[number])]
            assert isinstance(part, AttentionPart), "the attention parts are built above"
            contexts.append(part.prepare(self.node.attention.at(number), read))
        return contexts

    def compile_regions(self, *, any_shape: bool = False) -> None:
        """Compile a layer as a function of its weights, for all layers of its kind and widths.

        Layers are not nested in one graph: its gradients are wrong (docs/measured.md).
        """
        # Each kind and width, and the last layer if it has few outputs, has a graph for training
        # and one for evaluation, and others where a term wants queries, keys and values; torch
        # raises beyond its limit.
        node = self.node
        unlike = {node.layer(number) for number in range(node.depth)}
        graphs = 4 * (len(unlike) + 1 + bool(node.head.decoder))
        if any_shape:  # a batch of one row has its own graph, and so have packed rows
            graphs *= 4
        torch._dynamo.config.recompile_limit += graphs
        torch._dynamo.config.accumulated_recompile_limit += graphs
        compiled = partial(torch.compile, fullgraph=True, dynamic=any_shape)
        embed, layer, last_norm = map(compiled, self._plain())

        def profiled_layer(*states: Any) -> Any:
            with profile_as("layers"):
                return layer(*states)

        self._regions = embed, profiled_layer, last_norm

    def _plain(self) -> Regions:
        """Functions of a forward pass that can be compiled one by one; all layers share one."""
        return self.embeddings, compute_layer, self._last_norm

    def _last_norm(self, x_bsh: Float[Tensor, "b s h"]) -> Tensor:
        return x_bsh if self.norm is None else self.norm(x_bsh)
