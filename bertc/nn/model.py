"""A whole model: the encoder, the generator if there is one, and the heads of all objectives."""

import torch
from torch import nn

from bertc.ir.program.model import is_tied, model_weights
from bertc.ir.program.resolved import NetworkName, Resolved
from bertc.nn.encoder import Encoder
from bertc.nn.heads import Heads
from bertc.nn.inputs import EncoderInputs
from bertc.nn.memory import Memory
from bertc.nn.weights import initialise


class Model(nn.Module):
    """The module of a resolved program. Parameters are fp32 and named as in its weight table.

    ``compute_dtype`` is the dtype of activations; weights are cast where they are used.
    """

    def __init__(self, resolved: Resolved) -> None:
        super().__init__()
        self.resolved = resolved
        self.encoder = Encoder(resolved.encoder)
        self.generator = _generator(resolved, self.encoder) if resolved.generator else None
        last = resolved.stages[-1]
        self.heads = Heads(
            (term.objective, last.network(last.network_of(term.objective)))
            for term in resolved.terms()
        )
        self.compute_dtype = torch.float32
        self.same_length = False
        """Whether every token attends to as many remembered positions (Transformer-XL)."""
        self.untrained = frozenset[str]()
        """The pooler and heads for which there were no weights: their output is random."""

    def lacking(self) -> tuple[str, ...]:
        """The terms of the objective for whose heads there were no weights."""
        parts = {t.name: t.objective.head_name for t in self.resolved.terms()}
        return tuple(name for name, part in parts.items() if part in self.untrained)

    def encode(
        self,
        token_ids: torch.Tensor,
        segment_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        sequence_ids: torch.Tensor | None = None,
        language_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Last hidden states (batch, seq, hidden) of integer ids (batch, seq).

        ``attention_mask`` is true, or 1, at real tokens. Padding belongs at the end of a row.
        ``sequence_ids`` number the examples of rows that hold several, in unbroken runs: attention
        stays within them and positions begin again. ``language_ids`` are numbers of the program's
        languages, which without them are unknown. ``position_ids`` are the positions of tokens, if
        not in order.

        Raises:
            TypeError: if one of them is not a tensor of that kind, such as text.
        """
        inputs = EncoderInputs(
            token_ids,
            segment_ids,
            attention_mask,
            sequence_ids,
            language_ids=language_ids,
            position_ids=position_ids,
        )
        _check(inputs)
        return self.read(inputs)

    def read(self, inputs: EncoderInputs, network: NetworkName = "encoder") -> torch.Tensor:
        """Last hidden states (batch, seq, hidden), or of the output positions alone."""
        return self.read_on(inputs, network)[0]

    def read_on(
        self, inputs: EncoderInputs, network: NetworkName = "encoder"
    ) -> tuple[torch.Tensor, Memory | None]:
        """Last hidden states, and the memory for the rows after these, if these had one."""
        states: tuple[torch.Tensor, Memory | None]
        states = self.network(network)(inputs, self.compute_dtype)
        return states

    def network(self, name: NetworkName) -> Encoder:
        """The network of that name."""
        found = self.generator if name == "generator" else self.encoder
        assert found is not None, "a program without a generator has one network"
        return found

    def networks(self) -> tuple[Encoder, ...]:
        """All networks, the encoder first."""
        return (self.encoder,) if self.generator is None else (self.encoder, self.generator)

    def pool(self, hidden: torch.Tensor) -> torch.Tensor:
        """The pooled first token (batch, hidden) of hidden states (batch, seq, hidden).

        Raises:
            ValueError: if the encoder has no pooler.
        """
        return self.encoder.pool(hidden[:, 0])


def _check(inputs: EncoderInputs) -> None:
    """Refuse all but tensors of whole numbers (batch, seq); a mask may be of true and false."""
    for name, ids in inputs._asdict().items():
        if ids is None and name != "token_ids":
            continue
        if not isinstance(ids, torch.Tensor):
            given = f"a {type(ids).__name__}"
        elif ids.ndim != 2:
            given = f"a tensor of shape {tuple(ids.shape)}"
        elif ids.is_floating_point() and name != "attention_mask":
            given = f"a tensor of {ids.dtype}"
        else:
            continue
        raise TypeError(
            f"{name} is {given}: a tensor of whole numbers (batch, seq) expected; texts become "
            "such tensors by model.encode(**model.tokenizer(texts)) of what bertc.load gives"
        )


def _generator(resolved: Resolved, encoder: Encoder) -> Encoder:
    """The generator, with the tied parts of the encoder."""
    generator, ties = Encoder(resolved.network("generator")), resolved.stages[-1].replacements
    names = (weight.name for weight in generator.node.embedding_weights())
    tied = dict.fromkeys(name.split(".")[1] for name in names if is_tied(ties, name))
    generator.embeddings.borrow(encoder.embeddings, tied)
    return generator


def build(resolved: Resolved, device: str = "cpu") -> Model:
    """Allocate the model of a program and set its initial weights.

    On the ``meta`` device nothing is allocated and nothing set.

    Raises:
        RuntimeError: if the modules differ from the weight table.
    """
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
