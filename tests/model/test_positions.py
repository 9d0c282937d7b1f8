"""Attention by content with positions of its own, against formulas for one pair after the other."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import resolve
from bertc.cost import estimate
from bertc.ir import operation as op
from bertc.model import EncoderInputs, build
from bertc.model.attention.attend import attend
from bertc.model.attention.masks import Blocks, kernel_mask, mask_of, near
from bertc.model.positions import slopes
from tests.model import material
from tests.model.material import drawn, rows_of

B, S, H, N, D = 2, 200, 32, 4, 8
BASE = f"layers=3 hidden={H} heads={N} vocab=50 seq={S} dropout=0 segments=0 "
TURNED = "positions=rotary(50, local_theta=20"
NEAR = "attention=local(20, global_layers=[1]"
KINDS = [
    f"{TURNED})",
    f"{TURNED}, pairs=interleaved, share=0.5, scale=2) attention=full(bias=false)",
    "positions=alibi",
    "positions=alibi heads=3 head_dim=8",
    "positions=bucketed(402,offset=2,buckets=16,distance=40)",
    f"{NEAR}) positions=bucketed(400,buckets=16,distance=12)",
    f"{TURNED}) attention=full(kv_heads=2, norm=rms)",
    "positions=learned(400) table=whole(dropped=7) residual=plain(30) norm=pre(last=unbiased)",
    f"positions=none {NEAR})",
    f"{NEAR}, kv_heads=1, bias=false, norm=layer, over=width) {TURNED})",
    f"{TURNED}, rates=fp16) attention=full(norm=layer)",
    f"{NEAR}) positions=alibi heads=3 head_dim=8 norm=pre",
    f"{NEAR}) {TURNED}, pairs=interleaved) share=all",
    f"attention=local(150, global_every=2) {TURNED})",
]


def program(extra, *sets):
    """BASE, in which ``extra`` and ``sets`` count."""
    own = {setting.partition("=")[0] for setting in extra.split()}
    kept = (setting for setting in BASE.split() if setting.partition("=")[0] not in own)
    return resolve(" ".join([*kept, extra]), sets)


def bucket(apart, node):
    """T5's bucket of a distance, by the thresholds of its ranges."""
    half, near = node.buckets // 2, node.buckets // 4
    steps = (near * (node.distance / near) ** (n / (half - near)) for n in range(1, half - near))
    far = abs(apart)
    within = far if far < near else near + sum(far >= step - 1e-9 for step in steps)
    return within + (half if apart < 0 else 0)


IDS = rows_of(B, S)


def made(extra, *sets):
    return drawn(program(extra, *sets))


def turned(x, place, model, reach):
    """A head's numbers as complex ones, each pair times e^(i angle)."""
    node = model.resolved.encoder.positions
    if node.kind != "rotary":
        return x
    width = round(node.share * D)
    theta = node.theta if reach is None else node.local_theta
    result = x.clone()
    for pair in range(width // 2):
        one, two = (pair, pair + width // 2) if node.pairs == "half" else (2 * pair, 2 * pair + 1)
        rate = torch.tensor(theta ** (-2 * pair / width))
        rate = float(rate.half() if node.rates == "fp16" else rate)
        angle = place / node.scale * rate
        number = complex(x[one], x[two]) * complex(math.cos(angle), math.sin(angle))
        result[one], result[two] = number.real, number.imag
    return result


def slope(head, heads):
    """Those of a power of two of heads, then every other of twice as many (the paper's code)."""
    if math.log2(heads).is_integer():
        return float(2 ** (-8 * (head + 1) / heads))
    whole = 2 ** int(math.log2(heads))
    return slope(head, whole) if head < whole else slope(2 * (head - whole), 2 * whole)


def attended(model, layer, x, places):
    """What one attention part makes of states (s, h) at some places, before its norm."""
    node = model.resolved.encoder
    kind, heads = node.attention.at(layer), node.layers[layer].heads
    owner = f"encoder.attention.{node.attention_owner[layer]}."
    w = {k.removeprefix(owner): v for k, v in model.named_parameters() if k.startswith(owner)}
    many = kind.kv_heads or heads
    made_of = {
        part: x @ w[f"{part}.weight"].T + w.get(f"{part}.bias", 0.0)
        for part in ("query", "key", "value")
    }
    for part in ("query", "key") if kind.norm != "none" else ():
        x_snd = made_of[part].unflatten(1, (-1, D) if kind.over == "head" else (1, -1))
        x_snd = x_snd - x_snd.mean(2, keepdim=True) if kind.norm == "layer" else x_snd
        x_snd = x_snd / (x_snd.square().mean(2, keepdim=True) + node.norm.eps).sqrt()
        made_of[part] = (x_snd * w[f"{part}_norm.weight"]).flatten(1)

    def head_of(part, place, head):
        return turned(made_of[part][place, head * D : (head + 1) * D], place, model, kind.reach)

    result = torch.zeros(len(places), heads * D)
    for at, i in enumerate(places):
        far = len(x) if kind.reach is None else kind.reach
        near = [j for j in range(len(x)) if abs(i - j) <= far]
        for head in range(heads):
            shared = head // (heads // many)
            q = head_of("query", i, head)
            scores = [float(q @ head_of("key", j, shared)) / math.sqrt(D) for j in near]
            pairs = zip(near, scores, strict=True)
            if node.positions.kind == "alibi":
                scores = [score - slope(head, heads) * abs(i - j) for j, score in pairs]
            if node.positions.kind == "bucketed":
                table = model.encoder.get_parameter("relative.distance.weight")[:, head]
                scores = [x + float(table[bucket(i - j, node.positions)]) for j, x in pairs]
            values = made_of["value"][near, shared * D : (shared + 1) * D]
            result[at, head * D : (head + 1) * D] = torch.tensor(scores).softmax(0) @ values
    return result @ w["output.weight"].T + w.get("output.bias", 0.0)


@torch.no_grad()
@pytest.mark.parametrize("extra", KINDS)
def test_attention_is_its_formula(extra):
    model, places = made(extra), [0, 64, S - 1]
    seen = material.attended_states(model, IDS)
    assert len(seen) == 3
    for layer, (given, found) in enumerate(seen[:2]):
        expected = attended(model, layer, given[1], places)
        torch.testing.assert_close(found[1, places], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("seq", [9, 100, S])
@pytest.mark.parametrize("extra", KINDS)
def test_asked_padded_and_packed_rows_give_the_same_states(extra, seq):
    material.assert_alone(made(extra), seq, padding=170)


@pytest.mark.parametrize("extra", KINDS)
@pytest.mark.parametrize("rate", ["0", "0.1"])
def test_no_gradient_goes_from_one_packed_example_to_another(extra, rate):
    model = made(extra, f"dropout={rate}").train()
    numbers = torch.tensor([[1] * 90 + [2] * 110] * B)
    embedded: list[torch.Tensor] = []
    model.encoder.embeddings.register_forward_hook(
        lambda _, given, found: embedded.append(found) or found.retain_grad()
    )
    model.encode(IDS, sequence_ids=numbers)[:, :90].square().sum().backward()
    (gradient,) = (each.grad for each in embedded)
    assert gradient[:, 90:].abs().max() == 0
    assert gradient[:, :90].abs().amin((0, 2)).min() > 0
    learned = [name for name, p in model.named_parameters() if p.grad is None]
    assert all("pooler" in name or "heads" in name for name in learned)


def test_a_window_reaches_half_of_it_on_each_side():
    model = made("layers=1 positions=rotary attention=local(64)")
    changed = IDS.clone()
    changed[:, 100] = 4
    apart = (model.encode(IDS) - model.encode(changed)).abs().amin(2) > 0
    assert [int(place) for place in apart[0].nonzero()] == list(range(100 - 32, 100 + 33))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_blocks_are_one_mask_over_all_keys(dtype, rate):
    inputs = EncoderInputs(IDS, sequence_ids=(torch.arange(S) // 70).expand(B, S))
    found, reach = [], 15
    blocks = kernel_mask(inputs, False, reach)
    assert isinstance(blocks, Blocks)
    for mask in (blocks, near(mask_of(inputs), inputs, reach)):
        torch.manual_seed(3)
        qkv = [torch.randn(B, N, S, D).to(dtype).requires_grad_() for _ in range(3)]
        if rate:  # draws differ: what is left of every probability sums up to about 1
            with torch.no_grad():
                qkv[2].fill_(1)
        mixed = attend(*qkv, mask, rate)
        found.append([mixed, *torch.autograd.grad(mixed.square().sum(), qkv)])
    if rate:
        assert [each[0].detach().mean().item() for each in found] == pytest.approx([1, 1], abs=0.02)
        return
    close = 1e-5 if dtype == torch.float32 else 0.1
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=close, rtol=0.02)


def test_a_generator_with_fewer_heads_shares_what_keys_it_can():
    extra = "attention=full(kv_heads=4) objective=rtd+mlm generator=network(0.5,heads=2)"
    resolved = program(extra)
    (stage,) = resolved.stages
    shapes = {w.name: w.shape for w in stage.generator.weights()}
    assert shapes["attention.0.key.weight"] == shapes["attention.0.query.weight"] == (16, 16)
    model = build(resolved)
    assert estimate(resolved).parameters.total == sum(p.numel() for p in model.parameters())


def test_slopes_are_those_of_mosaicbert():
    found = slopes(12, torch.zeros(1, dtype=torch.float64)).log2()
    expected = [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("seq", [50, 200, 1024])
def test_windows_are_counted_as_seen(seq):
    resolved = program("attention=local(64, global_every=3)", f"seq={seq}")
    (stage,) = resolved.stages
    call = op.Call(rows=1, tokens=seq, queries=seq)
    found = [each for each in stage.encoder.operations(call).operations() if hasattr(each, "pairs")]
    near = sum(min(seq, i + 33) - max(0, i - 32) for i in range(seq))
    assert [each.pairs for each in found] == [seq * seq, near, near]
    # Of what is computed, torch counts the keys that a block has on both sides of its own.
    with FlopCounterMode(display=False) as counter:
        build(resolved, device="meta").encode(torch.zeros(1, seq, dtype=torch.long, device="meta"))
    blocks = -(-seq // 64) * 64 if seq > 256 else seq
    more = [0, *[blocks * each.span - each.pairs for each in found[1:]]]
    products = sum(
        2 * each.rows * each.inner * each.columns * each.times
        for each in stage.encoder.operations(call).operations()
        if isinstance(each, op.Product)
    )
    scores = sum(each.pairs for each in found)
    assert counter.get_total_flops() == products + 4 * H * (scores + sum(more))
