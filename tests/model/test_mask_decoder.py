"""The enhanced mask decoder against DeBERTa's layers, and what its states depend on."""

import pytest
import torch

from bertc.api import resolve
from bertc.ir.network.wanted import Wanted
from bertc.ir.program.model import trained_names
from bertc.model import EncoderInputs, Model, gather_positions
from tests.model.material import drawn
from tests.model.test_disentangled import IDS, KIND, MASK, NAMES, SEQ, B, H, N, V, deberta
from tests.model.test_disentangled import LAYERS as DEPTH

DECODED = Wanted(last=False, decoded=True)
BASE = f"layers={DEPTH} hidden={H} heads={N} vocab={V} seq={SEQ} "
BASE += "head=transform(decoder=128) "
OFFICIAL = f"{KIND} positions=none segments=0 norm=post(1e-7)"
LOCAL = "attention=local(8) positions=rotary norm=pre"


def made(extra: str = f"{OFFICIAL} dropout=0") -> Model:
    return drawn(resolve(BASE + extra), 0.3)


def decoded(model: Model, inputs: EncoderInputs) -> torch.Tensor:
    found = model.read_on(inputs, wanted=DECODED).decoded
    assert found is not None
    return found


def test_states_and_gradients_are_those_of_the_last_layer_twice():
    reference, ours = deberta(), made()
    weights, own = dict(reference.named_parameters()), dict(ours.named_parameters())
    there = {
        name: weights[name.replace(prefix, other)]
        for name in own
        for prefix, other in NAMES.items()
        if name.startswith(prefix)
    }
    with torch.no_grad():
        for name, weight in there.items():
            weight.copy_(own[name])
    positions = own["encoder.decoder_positions.weight"]
    copied = positions.detach().clone().requires_grad_()
    encoder, mask_b1ss = reference.encoder, reference.encoder.get_attention_mask(MASK)
    # One layer fewer: these states are keys and values of the last one.
    below = reference(input_ids=IDS, attention_mask=MASK.long(), output_hidden_states=True)
    keys = below.hidden_states[-2]
    rows, table = encoder.get_rel_pos(keys), encoder.get_rel_embedding()
    x = keys + copied[:SEQ]
    for _ in range(2):
        x, _ = encoder.layer[-1](keys, mask_b1ss, x, rows, table, False)
    found = decoded(ours, EncoderInputs(IDS, attention_mask=MASK))
    torch.testing.assert_close(found[MASK], x[MASK], atol=1e-4, rtol=1e-4)
    for states in x, found:
        states[MASK].sin().sum().backward()
    torch.testing.assert_close(positions.grad, copied.grad, atol=1e-4, rtol=1e-4)
    for name, weight in there.items():
        rest = slice(1, None) if "token" in name else slice(None)  # of the padding token
        torch.testing.assert_close(
            own[name].grad[rest], weight.grad[rest], atol=1e-4, rtol=1e-3,
            msg=lambda m, n=name: f"{n}: {m}",
        )  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("extra", [OFFICIAL, "", LOCAL, "norm=pre share=all"])
def test_states_of_a_few_positions_are_those_of_all(extra):
    model, at = made(f"{extra} dropout=0"), torch.tensor([[3, 68, 0], [5, 5, 60]])
    inputs = EncoderInputs(IDS, attention_mask=MASK)
    some, every = decoded(model, inputs.asked(None, at)), decoded(model, inputs)
    torch.testing.assert_close(some, gather_positions(every, at))
    last = model.read(inputs)
    both = model.read_on(inputs.asked(at, at), wanted=Wanted(decoded=True))
    torch.testing.assert_close(both.decoded, some)
    torch.testing.assert_close(both.last, gather_positions(last, at))
    assert (every - last).abs().max() > 0.05


@pytest.mark.parametrize("extra", [OFFICIAL, LOCAL])
def test_packed_rows_are_decoded_alone(extra):
    model, first = made(f"{extra} dropout=0"), 40
    sequence_ids = (torch.arange(SEQ) >= first).long().expand(B, SEQ) + 1
    packed = decoded(model, EncoderInputs(IDS, sequence_ids=sequence_ids))
    apart = [decoded(model, EncoderInputs(ids)) for ids in (IDS[:, :first], IDS[:, first:])]
    torch.testing.assert_close(packed, torch.cat(apart, dim=1), atol=1e-5, rtol=1e-5)


def test_recomputed_gradients_are_the_same():
    model, inputs = made(f"{OFFICIAL} dropout=0.1").train(), EncoderInputs(IDS)
    found = []
    for recompute in False, True:
        torch.manual_seed(3)
        model.encoder.recompute = recompute
        model.zero_grad()
        decoded(model, inputs.asked(None, torch.arange(8).expand(B, 8))).sin().sum().backward()
        found.append([each.grad for each in model.encoder.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        assert (plain is None) == (recomputed is None)
        if plain is not None:
            torch.testing.assert_close(plain, recomputed)


def test_only_a_network_that_predicts_masked_tokens_has_one():
    resolved = resolve(f"{BASE} objective=rtd*50+mlm generator=1")
    (stage,) = resolved.stages
    assert not stage.encoder.head.decoder
    assert stage.generator.head.decoder
    assert "generator.decoder_positions.weight" in trained_names(stage)
    assert not resolve(f"{BASE} objective=nsp format=segment-pair").encoder.head.decoder
