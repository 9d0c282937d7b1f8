"""Scores of heads and neurons: what the loss would gain or lose without each, to first order.

Axes: b batch, s sequence, u heads or neurons of a layer, d width of one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from bertc.ir.methods.pruning import units
from bertc.ir.network.encoder import Encoder as EncoderNode
from bertc.ir.network.sharing import OUTPUTS, SharedPart
from bertc.learn.objectives import MicroBatch
from bertc.learn.step.step import TrainStep
from bertc.model import Model


class Gates:
    """Gates of 1 that multiply the outputs of heads or neurons, and sums of their |dL/dgate|.

    Each row of a batch has gates of its own; layers that share a part share its gates.
    """

    def __init__(self, node: EncoderNode, part: SharedPart) -> None:
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
    assert isinstance(node, EncoderNode), "the checks allow pruning of transformers alone"
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


def gate_gradients(
    model: Model, step: TrainStep, part: SharedPart, batches: Sequence[Sequence[MicroBatch]]
) -> Tensor:
    """Summed |dL/dgate| over the rows of these batches, of all layers that own heads or neurons."""
    with put_gates(model, part) as gates:
        for micro_batches in batches:
            step.try_out(list(micro_batches))
        return gates.sums()
