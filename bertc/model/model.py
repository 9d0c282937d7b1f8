"""A whole model: its networks by name, and the heads of all objectives.

Axes: b batch, s sequence, h hidden.
"""

import torch
from torch import Tensor, nn

from bertc.ir.network.bilstm import BiLstmBody
from bertc.ir.network.body import Body, OwnBodyNode
from bertc.ir.network.body_node import Wanted
from bertc.ir.network.encoder import Encoder as EncoderNode
from bertc.ir.program import MAIN, Network, Resolved, frozen_weights, model_weights
from bertc.ir.terms.node import TermNode, asks_head
from bertc.model.bilstm import BiLstm
from bertc.model.body import LAST, BodyAboveTable, BodyModule, Outputs
from bertc.model.encoder import Encoder
from bertc.model.heads import Heads, Pooler
from bertc.model.inputs import EncoderInputs
from bertc.model.own import OwnModule
from bertc.model.weights import initialise


class Model(nn.Module):
    """The module of a resolved program. Parameters are fp32 and named as in its weight table.

    ``compute_dtype`` is the dtype of activations; weights are cast where they are used.
    """

    encoder: BodyModule

    def __init__(self, resolved: Resolved) -> None:
        super().__init__()
        self.resolved = resolved
        self._names = tuple(network.name for network in resolved.learned)
        for network in resolved.learned:
            self.add_module(network.name, build_body(network.body))
        for network in resolved.learned:  # networks that lend weights come first
            for tie in network.ties:
                tied = [w.name for w in network.body.weights() if tie.covers(w.name)]
                lender = self.network(tie.network)
                self.network(network.name).borrow(lender, tied, added=tie.added)
        last = resolved.stages[-1]
        self.heads = Heads((t.objective, last.learner(t.objective).body) for t in resolved.terms())
        self.compute_dtype = torch.float32
        self.same_length = False
        """True if every token attends to the same number of cached positions (Transformer-XL)."""
        self.untrained = frozenset[str]()
        """The pooler and heads without loaded weights; their output is random."""

    def lacking(self) -> tuple[str, ...]:
        """The objectives whose heads have no loaded weights."""
        parts = {t.name: t.objective.head_name for t in self.resolved.terms()}
        return tuple(name for name, part in parts.items() if part in self.untrained)

    def encode(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        language_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """Last hidden states (batch, seq, hidden) of integer ids (batch, seq).

        ``attention_mask`` is true, or 1, at real tokens; padding belongs at the end of a row.
        ``sequence_ids`` number the examples of packed rows, in contiguous runs: attention stays
        within them and positions restart. ``language_ids`` are indices of the program's languages,
        by default none. ``position_ids`` are the positions of tokens, if not in order.

        Raises:
            TypeError: if an argument is not an integer tensor, for instance text.
        """
        inputs = EncoderInputs(
            token_ids, segment_ids, attention_mask, sequence_ids, language_ids=language_ids,
            position_ids=position_ids,
        )  # fmt: skip
        _check(inputs)
        return self.read(inputs)

    def read(self, inputs: EncoderInputs, network: str = MAIN) -> Tensor:
        """Last hidden states (batch, seq, hidden), or only those of the output positions."""
        return self.read_on(inputs, network).last

    def read_for(self, objective: TermNode, inputs: EncoderInputs, network: str = MAIN) -> Tensor:
        """The same states, or those of the mask decoder if the head of an objective reads these."""
        if not (objective.states.decoded and self.network(network).node.head.decoder):
            return self.read(inputs, network)
        decoded = self.read_on(inputs, network, Wanted(last=False, decoded=True)).decoded
        assert decoded is not None, "they are wanted"
        return decoded

    def read_on(
        self, inputs: EncoderInputs, network: str = MAIN, request: Wanted = LAST
    ) -> Outputs:
        """Last hidden states, other outputs of a request, and the memory for the next rows."""
        return self.network(network)(inputs, self.compute_dtype, request)

    def network(self, name: str) -> BodyModule:
        """The body of the network of this name."""
        body = self.get_submodule(name)
        assert isinstance(body, BodyModule), "heads are not a network"
        return body

    def networks(self) -> tuple[BodyModule, ...]:
        """All networks, the main one first."""
        return tuple(map(self.network, self._names))

    def pool(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """One pooled state a row (batch, hidden) of hidden states (batch, seq, hidden).

        It is of the first token, or with such a pooler of the mean of those in ``attention_mask``.

        Raises:
            ValueError: if the encoder has no pooler.
        """
        if not self.encoder.node.pooled.of_rows:
            return self.encoder.pool(hidden[:, 0])
        nothing_bs = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)
        real_bs = None if attention_mask is None else attention_mask.bool()
        inputs = EncoderInputs(nothing_bs, attention_mask=real_bs)
        return self.encoder.pool(hidden, inputs)[:, 0]


class Frozen(nn.Module):
    """A frozen network with the heads that terms ask it for, always in evaluation mode.

    It is no part of a model: in no checkpoint, without moments, whole in each process.
    """

    encoder: BodyModule

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.encoder = build_body(network.body)
        scored = (term for term in network.scored if asks_head(term))
        self.heads = Heads((term, network.body) for term in scored)
        self.compute_dtype = torch.float32
        self.requires_grad_(requires_grad=False).eval()

    def train(self, mode: bool = True) -> "Frozen":
        """Stay in evaluation mode."""
        return super().train(mode=False)

    @torch.no_grad()
    def read_on(self, inputs: EncoderInputs, request: Wanted) -> Outputs:
        """Its last states, and what is asked for beside them."""
        return self.encoder(inputs, self.compute_dtype, request)


def build_body(node: Body) -> BodyModule:
    """Build the module of a body."""
    match node:
        case EncoderNode():
            return Encoder(node)
        case BiLstmBody():
            return BiLstm(node)
        case OwnBodyNode():
            return OwnBody(node)


def _check(inputs: EncoderInputs) -> None:
    """Refuse anything but integer tensors (batch, seq); a mask may be boolean."""
    for name, ids in inputs._asdict().items():
        if ids is None and name != "token_ids":
            continue
        if not isinstance(ids, Tensor):
            passed = f"a {type(ids).__name__}"
        elif ids.ndim != 2:
            passed = f"a tensor of shape {tuple(ids.shape)}"
        elif ids.is_floating_point() and name != "attention_mask":
            passed = f"a tensor of {ids.dtype}"
        else:
            continue
        raise TypeError(
            f"{name} is {passed}: an integer tensor (batch, seq) expected; encode texts with "
            "model.encode(**model.tokenizer(texts)), on a model of bertc.load"
        )


def drawn(network: Network, seed: int) -> Frozen:
    """A frozen network of initial values, where only its shape is known."""
    frozen = Frozen(network)
    initialise(frozen, frozen_weights(network), seed)
    return frozen


def build(resolved: Resolved, device: str = "cpu") -> Model:
    """Allocate the model of a program and set its initial weights; on ``meta`` nothing is set."""
    table = model_weights(resolved)
    # Values are drawn on the CPU, so that they do not depend on the device.
    with torch.device("meta" if device == "meta" else "cpu"):
        model = Model(resolved)
    counted = {weight.name: weight.shape for weight in table}
    built = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if counted != built:
        differing = sorted(counted.items() ^ built.items())
        raise RuntimeError(f"the modules differ from the weight table: {differing[:4]}")
    if device != "meta":
        initialise(model, table, resolved.run.seed)
        model = model.to(device)
    return model


class OwnBody(BodyAboveTable):
    """Token ids (b, s) to states (b, s, h)."""

    node: OwnBodyNode

    def __init__(self, node: OwnBodyNode) -> None:
        table = {weight.name: weight for weight in node.weights()}
        super().__init__(node, table)
        self.recurrence = nn.ModuleList([OwnModule(table, "recurrence.0", node.own)])
        self.pooler = Pooler(table, node) if node.pooler else None

    def beside(self, inputs: EncoderInputs) -> Tensor:
        real_bs = inputs.attention_mask
        return torch.ones_like(inputs.token_ids).bool() if real_bs is None else real_bs.bool()
