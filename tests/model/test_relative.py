"""Attention by distance against its formula, one pair of tokens after the other."""

import math

import pytest
import torch

from bertc.api import resolve
from bertc.model import EncoderInputs
from tests.model import material
from tests.model.material import drawn, rows_of

B, S, H, N, D = 2, 7, 16, 2, 8
BASE = f"layers=2 hidden={H} heads={N} vocab=50 seq=16 dropout=0 "
KINDS = [
    "attention=relative", "attention=relative(untie=true) norm=post(1e-5, embeddings=false)",
    "attention=relative(clamp=3)", "attention=relative(untie=true, segments=true)",
    "attention=relative share=attention", "attention=relative norm=pre E=8",
]  # fmt: skip


def made(extra, base=BASE):
    return drawn(resolve(base + extra))


IDS = rows_of(B, S)


def wave(distance, clamp):
    far = max(-clamp, min(clamp, distance)) if clamp else distance
    angles = [far / 10_000 ** (2 * i / H) for i in range(H // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def attended(model, layer, x, segments, seen):
    """What one attention part makes of states (s, h), of which each sees some, before its norm."""
    node = model.resolved.encoder
    owner = node.attention_owner[layer]
    w = {
        name.removeprefix(f"encoder.attention.{owner}."): value
        for name, value in model.named_parameters()
    }
    for name in ("content_bias", "distance_bias"):
        w.setdefault(name, w.get(f"encoder.relative.{name}", torch.zeros(0)))
    result = torch.zeros(len(x), N * D)
    for head in range(N):
        part = slice(head * D, (head + 1) * D)
        for i in range(len(x)):
            q = (w["query.weight"] @ x[i])[part]
            scores = []
            for j in seen(i):
                k = (w["key.weight"] @ x[j])[part]
                r = (w["distance.weight"] @ wave(i - j, node.attention.clamp))[part]
                score = (q + w["content_bias"][part]) @ k + (q + w["distance_bias"][part]) @ r
                if node.attention.segments:
                    row = int(segments[i] != segments[j])
                    score = score + (q + w["segment_bias"][part]) @ w["segment"][row, part]
                scores.append(score / math.sqrt(D))
            values = torch.stack([(w["value.weight"] @ x[j])[part] for j in seen(i)])
            result[i, part] = torch.stack(scores).softmax(0) @ values
    return result @ w["output.weight"].T


@pytest.mark.parametrize("extra", KINDS)
def test_attention_is_its_formula(extra):
    model, segments = made(extra), torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0] * 7])
    seen = material.attended_states(model, IDS, segments)
    assert len(seen) == 2
    for layer, (given, found) in enumerate(seen):
        for row in range(B):
            expected = attended(model, layer, given[row], segments[row], lambda _: range(S))
            torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("extra", KINDS)
def test_asked_padded_and_packed_rows_give_the_same_states(extra):
    material.assert_alone(made(extra), S)


@pytest.mark.parametrize("extra", ["", *KINDS])
def test_a_row_of_padding_alone_is_finite(extra):
    model = made(extra, BASE.replace("dropout=0", "dropout=0.1")).train()
    states = model.encode(IDS, attention_mask=torch.tensor([[1] * S, [0] * S]))
    assert states.isfinite().all()
    states[0].square().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_sinusoidal_places_stand_in_for_learned_ones():
    model = made("positions=sinusoidal norm=pre")
    assert not any("position" in name for name, _ in model.named_parameters())
    embeddings = model.encoder.embeddings
    fixed = embeddings.token.weight[IDS] + embeddings.segment.weight[0]
    found = embeddings(EncoderInputs(IDS), torch.float32)
    waves = torch.stack([wave(place, 0) for place in range(S)])
    torch.testing.assert_close(found, fixed + waves, atol=1e-5, rtol=1e-5)
    numbers = torch.tensor([[1] * 3 + [2] * 4] * B)
    restarted = embeddings(EncoderInputs(IDS, sequence_ids=numbers), torch.float32)
    places = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    torch.testing.assert_close(restarted, fixed + waves[places], atol=1e-5, rtol=1e-5)


def test_long_rows_are_worked_on_in_strips_to_the_same_end():
    model = drawn(resolve(f"{BASE} attention=relative(untie=true)", ["seq=300"]))
    row, places = rows_of(1, 300), torch.arange(300)[None]
    whole = model.encode(row)
    found = model.read(EncoderInputs(row, output_positions=places))
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-4)
