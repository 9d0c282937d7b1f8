"""Pruning within a stage: which heads or neurons go, and zeros in their place.

What is gone is seen in the weights themselves, so a checkpoint holds nothing else about it. Scores
by gradients say what the loss would gain or lose without each, to first order.

Axes: b batch, s sequence, u heads or neurons of a layer, d width of one.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from bertc.base.storage import durable
from bertc.hub.leaving.pruned import entries_of, find_removed, norms
from bertc.ir.methods.pruning import Heads, Neurons, Units
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import OUTPUTS, SharedPart
from bertc.ir.weight_maps.pruned import ByLayer, choose_by_score, entries, units
from bertc.learn.step.engines import local_shard
from bertc.model import Model
from bertc.run.methods.acting import Acting
from bertc.run.train.phase import Phase
from bertc.run.train.session import Session


class Gates:
    """Gates of 1 that multiply the outputs of heads or neurons, and sums of their |dL/dgate|.

    Each row of a batch has gates of its own; layers that share a part share its gates.
    """

    def __init__(self, node: Encoder, part: SharedPart) -> None:
        self.counts = units(node, part)
        self._sums = {layer: torch.zeros(number) for layer, number in self.counts.items()}
        self._gates: dict[int, Tensor] = {}

    def apply(self, layer: int, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        """The input (b, s, u x d) of an output projection, multiplied by its gates."""
        x = rearrange(inputs[0], "b s (u d) -> b s u d", u=self.counts[layer])
        if layer not in self._gates:
            gate_bu = torch.ones(len(x), self.counts[layer], device=x.device)
            self._gates[layer] = gate_bu.requires_grad_()
        gate_b1u1 = self._gates[layer][:, None, :, None]
        return (rearrange((x * gate_b1u1).to(x.dtype), "b s u d -> b s (u d)"),)

    def collect(self, *_: Any) -> None:
        """Add the gradients of the rows since the last call to the sums."""
        for layer, gate_bu in self._gates.items():
            if gate_bu.grad is not None:
                self._sums[layer] += gate_bu.grad.abs().sum(0).cpu()
        self._gates = {}

    def sums(self) -> Tensor:
        """The sums of all layers in one vector, in fp64."""
        self.collect()
        return torch.cat([self._sums[layer] for layer in self.counts]).double()


@contextmanager
def put_gates(model: Model, part: SharedPart) -> Iterator[Gates]:
    """Put gates into the main network, in evaluation mode and without compiled functions."""
    body, node = model.encoder, model.encoder.node
    assert isinstance(node, Encoder), "the checks allow pruning of transformers alone"
    gates = Gates(node, part)
    # A new forward pass of the network begins: the gradients of the last one are complete.
    hooks = [body.register_forward_pre_hook(gates.collect)]
    for layer in gates.counts:
        projection = body.get_submodule(f"{part}.{layer}.{OUTPUTS[part]}")
        hooks.append(projection.register_forward_pre_hook(partial(gates.apply, layer)))
    model.eval()
    try:
        with torch.compiler.set_stance("force_eager"):
            yield gates
    finally:
        model.train()
        for hook in hooks:
            hook.remove()


class Removing(Acting[Heads | Neurons]):
    """The removal of heads or neurons, at once or in rounds."""

    def before_step(self, phase: Phase) -> None:
        """Remove what is to go before the next step."""
        session, stage, kind, encoder = self.session, self.stage, self.method, self.stage.encoder
        share = kind.share_gone(session.progress.step - stage.first_step, stage.steps)
        if share is None:
            return
        assert isinstance(encoder, Encoder), "the checks allow pruning of transformers alone"
        counts = units(encoder, kind.part)
        ranks, weights = session.ranks, session.weights()
        gone = find_removed(encoder, weights)[kind.part] if ranks.is_main else {}
        gone = _broadcast_found(session, gone)
        scores = {layer: [0.0] * number for layer, number in counts.items()}
        target = choose_by_score(kind, scores, gone, share)
        if _total(target) == _total(gone):
            return
        if kind.by == "gradient":
            scores = _gradients(session, phase, kind, counts)
        elif ranks.is_main:
            by_layer = norms(encoder, kind.part, weights)
            scores = {layer: norms_u.tolist() for layer, norms_u in by_layer.items()}
        removed = _broadcast_found(session, choose_by_score(kind, scores, gone, share))
        _zero(session, encoder, kind, removed)
        if ranks.is_main:
            durable.remove(session.folder.left)  # of an end before this one
        remaining = " ".join(str(number - len(removed[layer])) for layer, number in counts.items())
        session.display.note(
            f"step {session.progress.step:,}: {_total(removed):,} of {sum(counts.values()):,} "
            f"{kind.kind} are removed; left by layer: {remaining}"
        )


def _total(by_layer: ByLayer) -> int:
    return sum(map(len, by_layer.values()))


def _broadcast_found(session: Session, by_layer: ByLayer) -> dict[int, list[int]]:
    """Send what the first process found to all."""
    return dict(session.ranks.share([[layer, list(gone)] for layer, gone in by_layer.items()]))


def _gradients(
    session: Session, phase: Phase, kind: Units, counts: dict[int, int]
) -> dict[int, list[float]]:
    """Mean |dL/dgate| of all layers that own heads or neurons, over the first rows of the stage."""
    number = math.ceil(kind.examples / phase.stage.batch)
    with phase.feed(0, number) as feed:
        batches = [feed.take().micro_batches for _ in range(number)]
    with put_gates(phase.model, kind.part) as gates:
        for micro_batches in batches:
            phase.step.try_out(micro_batches)
        sums_u = gates.sums().to(session.device)
    session.ranks.add(sums_u)
    parts = torch.split(sums_u.cpu() / (number * phase.stage.batch), list(counts.values()))
    return {layer: part.tolist() for layer, part in zip(counts, parts, strict=True)}


@torch.no_grad()
def _zero(session: Session, encoder: Encoder, kind: Units, removed: ByLayer) -> None:
    """Set the weights of what is removed to zero, and their moments."""
    places = entries(encoder)
    moments = ((name.partition(".")[2], moment) for name, moment in session.moments.items())
    for name, tensor in (
        *session.engine.parameters.items(),
        *(pair for tensors in session.held.values() for pair in tensors.items()),
        *moments,  # they are called m.<weight>
    ):
        place = places.get(name)
        if place and place.part == kind.part and removed[place.layer]:
            gone = session.engine.shard(entries_of(tensor, place, removed[place.layer]), name)
            local_shard(tensor)[local_shard(gone)] = 0
