"""Residual streams against their definitions, with the parts of the network as functions."""

import pytest
import torch
from torch import Tensor

from bertc.api import resolve
from bertc.model import EncoderInputs, Model, build
from tests.kinds import UNIONS
from tests.model.material import ROWS, assert_alone, assert_counted, drawn

LAYERS = 4
BASE = f"layers={LAYERS} hidden=32 heads=2 ffn=48 vocab=100 seq=16 positions=64 dropout=0 norm=pre "
KINDS = ("elc", "elc(zero=true)", "dwa", "unet", "value")
INPUTS = EncoderInputs(torch.randint(5, 100, (2, 16), generator=torch.Generator().manual_seed(1)))


def by_definition(model: Model, kind: str) -> Tensor:
    """Last states (b, s, h) of a pre-norm network, each layer from the list of all outputs."""
    body = model.encoder
    numbers = {
        n.removeprefix("residual."): p for n, p in body.named_parameters() if "residual" in n
    }
    outputs = [body.embeddings(INPUTS, torch.float32)]
    contexts, values = body._contexts(INPUTS, outputs[0]), list[Tensor]()

    def attend(layer: int, x: Tensor) -> Tensor:
        part = body.attention[str(body.node.attention_owner[layer])]
        x = part.norm(x)
        made = part.project(x, None, contexts[layer])
        if kind == "value":
            share = numbers[f"{layer}.attention"] if layer else torch.zeros(1)
            values.append(made.values)
            made = made._replace(values=(1 - share) * made.values + share * values[0])
        return part.put_out(x, part.mix(made, contexts[layer]))

    def feed(layer: int, x: Tensor) -> Tensor:
        part = body.ffn[str(body.node.ffn_owner[layer])]
        return part(part.norm(x))

    def summed(place: str) -> Tensor:
        weights = numbers[place].softmax(0) if "elc" in kind else numbers[place]
        return sum(weight * x for weight, x in zip(weights, outputs, strict=True))

    for layer in range(LAYERS):
        x = outputs[-1]
        if "elc" in kind:
            x = summed(f"{layer}.attention") if layer else x
            y = attend(layer, x)
            outputs.append(y + feed(layer, x + y if "zero" in kind else y))
            continue
        if kind == "dwa" and layer:
            x = summed(f"{layer}.attention")
        if kind == "unet" and layer >= LAYERS // 2:
            x = x + numbers[f"{layer}.attention"] * outputs[LAYERS - layer]
        x = x + attend(layer, x)
        if kind == "dwa":
            outputs.append(x)
            x = summed(f"{layer}.ffn")
        outputs.append(x + feed(layer, x))
    return body.norm(summed("last.attention") if kind == "dwa" else outputs[-1])


@pytest.mark.parametrize("share", ["none", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_states_and_gradients_are_those_of_the_definition(kind, share):
    model = drawn(resolve(f"{BASE} residual={kind} share={share}"))
    names, weights = zip(*model.encoder.named_parameters(), strict=True)
    expected, upstream = by_definition(model, kind), torch.linspace(-1, 1, 32)
    states = model.read(INPUTS)
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-4)
    wanted = torch.autograd.grad((expected * upstream).sum(), weights, allow_unused=True)
    model.encoder.recompute = True
    made = torch.autograd.grad((model.read(INPUTS) * upstream).sum(), weights, allow_unused=True)
    for name, gradient, other in zip(names, made, wanted, strict=True):
        if other is not None:
            torch.testing.assert_close(gradient, other, atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("kind", sorted(UNIONS["residual"] - {"plain"}) + ["elc(zero=true)"])
def test_rows_are_read_by_themselves_and_products_are_counted(kind):
    resolved = resolve(f"{BASE} residual={kind} {ROWS}")
    assert_alone(drawn(resolved), 16)
    assert_counted(resolved)


def test_numbers_begin_with_the_newest_output_and_are_not_decayed():
    first = resolve(f"{BASE} residual=dwa").encoder.weights()
    numbers = {weight.name: weight for weight in first if weight.name.startswith("residual.")}
    assert [len(numbers), sum(w.numel for w in numbers.values())] == [2 * LAYERS, 44]
    assert {weight.role for weight in numbers.values()} == {"norm"}
    model = build(resolve(f"{BASE} residual=dwa"))
    assert dict(model.named_parameters())["encoder.residual.1.ffn"].tolist() == [0, 0, 0, 1]
