"""LTG-, ELC-, GPT- and crammed BERT, and residual streams, against their definitions in torch."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.model import EncoderInputs, build
from tests.kinds import UNIONS
from tests.model.material import ROWS, assert_alone, assert_counted, drawn

LAYERS, HIDDEN, HEADS, FFN, VOCAB, SEQ, BUCKETS, FAR = 3, 32, 4, 24, 90, 40, 8, 32
SIZES = f"layers={LAYERS} hidden={HIDDEN} heads={HEADS} ffn={FFN} vocab={VOCAB} seq={SEQ} steps=2 "
SIZES += "batch=2 batch_warmup=none dropout=0"
LTG = f"extends ltg {SIZES} attention=disentangled({BUCKETS}, {FAR}, beyond=false)"
GPT = f"extends gpt-bert {SIZES} attention=disentangled({BUCKETS}, {FAR}, beyond=false, gate=gelu)"
STD = 0.15
"""Of weights, so that scores have the size of real ones: .8 on average, 3 at most."""
KINDS = {"ltg": LTG, "elc": f"{LTG} residual=elc", "gpt": GPT}
IDS = torch.randint(5, VOCAB, (2, SEQ), generator=torch.Generator().manual_seed(1))
REAL = torch.arange(SEQ) < torch.tensor([[SEQ], [SEQ - 13]])


def rows_of_the_table():
    """Near distances have a row each, farther ones share those of a logarithmic scale."""
    apart = torch.arange(SEQ)[:, None] - torch.arange(SEQ)
    near, far = BUCKETS // 2, apart.abs().clamp(max=FAR - 1).double()
    shared = near + ((far / near).log() / math.log((FAR - 1) / near) * (near - 1)).ceil()
    steps = torch.where(far <= near, far, shared).long()
    return BUCKETS - 1 + apart.sign() * steps


def by_definition(weights, kind, causal):
    """Scores (b, s, v) of every token."""
    eps = 1e-5 if kind == "gpt" else 1e-7
    body = {name.removeprefix("encoder."): w for name, w in weights.items()}

    def plain(x):
        return F.layer_norm(x, x.shape[-1:], eps=eps)

    def mapped(x, name):
        return F.linear(x, body[f"{name}.weight"], body.get(f"{name}.bias"))

    def normed(x, name):
        return F.layer_norm(x, x.shape[-1:], body[f"{name}.weight"], body[f"{name}.bias"], eps)

    def heads(x):
        return x.unflatten(-1, (HEADS, -1)).transpose(-3, -2)

    def attention(x, name):
        x, table = plain(x), normed(body["relative.distance.weight"], "relative.norm")
        query, key, value = (heads(mapped(x, f"{name}.{n}")) for n in ("query", "key", "value"))
        far = (heads(mapped(table, f"{name}.{n}"))[:, rows] for n in ("query", "key"))
        far_query, far_key = far
        scores = query @ key.mT + torch.einsum("bhqd,hqkd->bhqk", query, far_key)
        scores = scores + torch.einsum("bhkd,hqkd->bhqk", key, far_query)
        scores = scores / math.sqrt(3 * query.shape[-1])
        chances = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        context = (chances @ value).transpose(1, 2).flatten(2)
        if kind == "gpt":
            return mapped(
                plain(context * F.gelu(mapped(x, f"{name}.context_gate"))), f"{name}.output"
            )
        return normed(mapped(context, f"{name}.output"), f"{name}.output_norm")

    def feed(x, name):
        gate = F.gelu(mapped(plain(x), f"{name}.gate"), approximate="tanh")
        return mapped(plain(mapped(plain(x), f"{name}.inner") * gate), f"{name}.outer")

    def weighed(place):
        numbers = body[f"residual.{place}"]
        return torch.tensordot(
            numbers.softmax(0) if kind == "elc" else numbers, torch.stack(outputs), 1
        )

    rows, seen = rows_of_the_table(), REAL[:, None, None, :]
    seen = torch.ones(SEQ, SEQ).tril().bool() if causal else seen
    outputs = [plain(body["embeddings.token.weight"][IDS])]
    for layer in range(LAYERS):
        x = weighed(f"{layer}.attention") if f"residual.{layer}.attention" in body else outputs[-1]
        y = attention(x, f"attention.{layer}")
        y = y if kind == "elc" else x + y
        if kind == "gpt":
            outputs.append(y)
            y = weighed(f"{layer}.ffn")
        outputs.append(y + feed(y, f"ffn.{layer}"))
    x = plain(weighed("last.attention") if kind == "gpt" else outputs[-1])
    head = next(n.removesuffix(".dense.weight") for n in weights if n.endswith("dense.weight"))
    x = plain(F.gelu(mapped(x, f"{head}.dense")))
    return F.linear(x, body["embeddings.token.weight"], weights[f"{head}.bias"])


@pytest.mark.parametrize("objective", ["mlm", "clm"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_gradients_are_those_of_the_definition(kind, objective):
    model = drawn(resolve(f"{KINDS[kind]} objective={objective}"), STD)
    assert_scores(model, objective, partial(by_definition, kind=kind, causal=objective == "clm"))


def assert_scores(model, objective, defined):
    """Scores and their gradients are those of a definition in double precision."""
    weights, real = dict(model.named_parameters()), REAL if objective == "mlm" else None
    exact = {name: weight.detach().double().requires_grad_() for name, weight in weights.items()}
    head = model.heads[objective]
    states = model.read(EncoderInputs(IDS, attention_mask=real))
    scores = head.scores(states, weights["encoder.embeddings.token.weight"])
    expected = defined(exact)
    if real is not None:
        scores, expected = scores[real], expected[real]
    torch.testing.assert_close(scores.double(), expected, atol=1e-5, rtol=0)
    upstream = torch.linspace(-1, 1, VOCAB)
    made, wanted = (
        torch.autograd.grad((x * upstream).sum(), list(leaves.values()))
        for x, leaves in ((scores, weights), (expected, exact))
    )
    for name, one, other in zip(weights, made, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4, msg=name)


def crammed(weights):
    """Scores (b, s, v) of every token by crammed BERT, with the parts that there are weights of."""
    body = {name.removeprefix("encoder."): w for name, w in weights.items()}

    def mapped(x, name):
        return F.linear(x, body[f"{name}.weight"], body.get(f"{name}.bias"))

    def normed(x, name):
        return F.layer_norm(x, (HIDDEN,), body[f"{name}.weight"], body[f"{name}.bias"], 1e-12)

    angles = torch.arange(SEQ).double()[:, None] / 10_000 ** (torch.arange(0, HIDDEN, 2) / HIDDEN)
    waves, scale = torch.cat([angles.sin(), angles.cos()], 1), body.get("embeddings.position.scale")
    places = body["embeddings.position.weight"] if scale is None else scale * waves
    x = normed(body["embeddings.token.weight"][IDS] + places, "embeddings.norm")
    for at, ffn in ((f"attention.{layer}", f"ffn.{layer}") for layer in range(LAYERS)):
        y = normed(x, f"{at}.norm")
        parts = (mapped(y, f"{at}.{n}") for n in ("query", "key", "value"))
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        context = F.scaled_dot_product_attention(query, key, value, REAL[:, None, None])
        x = x + mapped(context.transpose(1, 2).flatten(2), f"{at}.output")
        y, gate = normed(x, f"{ffn}.norm"), f"{ffn}.gate"
        inner = mapped(y, f"{ffn}.inner")
        inner = F.gelu(mapped(y, gate)) * inner if f"{gate}.weight" in body else F.gelu(inner)
        x = x + mapped(inner, f"{ffn}.outer")
    if "norm.weight" in body:
        return F.linear(normed(x, "norm"), body["embeddings.token.weight"])
    x = normed(F.gelu(mapped(x, "heads.mlm.dense")), "heads.mlm.norm")
    return F.linear(x, body["embeddings.token.weight"], body["heads.mlm.bias"])


@pytest.mark.parametrize(("name", "bare"), [("crammed-bert", True), ("crammed-bert-simple", False)])
def test_crammed_bert_is_that_of_its_definition(name, bare):
    model = drawn(resolve(f"extends {name} {SIZES}"), STD)
    weights = dict(model.named_parameters())
    for part, there in (("scale", bare), ("gate", bare), ("r.norm", bare), ("y.bias", not bare)):
        assert any(part in weight for weight in weights) == there
    assert_scores(model, "mlm", crammed)


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_counted(kind):
    assert_counted(resolve(f"{KINDS[kind]} objective=mlm {ROWS}".replace("batch=2 ", "", 1)))


def test_both_maps_of_a_feed_forward_part_begin_by_the_number_of_its_layer():
    scaled = "initializer=truncated-normal(0.02, depth_scaled=by-layer)"
    model = build(resolve(f"{LTG} {scaled}".replace(f"ffn={FFN}", "ffn=400")))
    for layer in range(LAYERS):
        for name in ("gate", "inner", "outer"):
            std = model.get_parameter(f"encoder.ffn.{layer}.{name}.weight").std().item()
            assert std == pytest.approx(0.02 / math.sqrt(2 * (layer + 1)) * 0.88, rel=0.05)


DEPTH = 4
STREAM = "layers=4 hidden=32 heads=2 ffn=48 vocab=100 seq=16 positions=64 dropout=0 norm=pre"
STREAMS = ("elc", "elc(zero=true)", "dwa")
ROW = EncoderInputs(torch.randint(5, 100, (2, 16), generator=torch.Generator().manual_seed(1)))


def streamed(model, kind):
    """Last states (b, s, h) of a pre-norm network, each layer from the list of all outputs."""
    body = model.encoder
    named = body.named_parameters()
    numbers = {n.removeprefix("residual."): p for n, p in named if "residual" in n}
    outputs = [body.embeddings(ROW, torch.float32)]
    contexts = body._contexts(ROW, outputs[0])

    def attend(layer, x):
        part = body.attention[str(body.node.attention_owner[layer])]
        return part(part.norm(x), None, contexts[layer])

    def feed(layer, x):
        part = body.ffn[str(body.node.ffn_owner[layer])]
        return part(part.norm(x))

    def summed(place):
        weights = numbers[place].softmax(0) if "elc" in kind else numbers[place]
        return sum(weight * x for weight, x in zip(weights, outputs, strict=True))

    for layer in range(DEPTH):
        x = outputs[-1]
        if "elc" in kind:
            x = summed(f"{layer}.attention") if layer else x
            y = attend(layer, x)
            outputs.append(y + feed(layer, x + y if "zero" in kind else y))
            continue
        x = summed(f"{layer}.attention") if layer else x
        outputs.append(x + attend(layer, x))
        x = summed(f"{layer}.ffn")
        outputs.append(x + feed(layer, x))
    return body.norm(summed("last.attention") if kind == "dwa" else outputs[-1])


@pytest.mark.parametrize("share", ["none", "all"])
@pytest.mark.parametrize("kind", STREAMS)
def test_streams_and_gradients_are_those_of_the_definition(kind, share):
    model = drawn(resolve(f"{STREAM} residual={kind} share={share}"))
    names, weights = zip(*model.encoder.named_parameters(), strict=True)
    expected, upstream = streamed(model, kind), torch.linspace(-1, 1, 32)
    torch.testing.assert_close(model.read(ROW), expected, atol=1e-5, rtol=1e-4)
    wanted = torch.autograd.grad((expected * upstream).sum(), weights, allow_unused=True)
    model.encoder.recompute = True
    made = torch.autograd.grad((model.read(ROW) * upstream).sum(), weights, allow_unused=True)
    for name, gradient, other in zip(names, made, wanted, strict=True):
        if other is not None:
            torch.testing.assert_close(gradient, other, atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("kind", sorted(UNIONS["residual"] - {"plain", "own"}) + ["elc(zero=true)"])
def test_rows_are_read_by_themselves_and_products_are_counted(kind):
    resolved = resolve(f"{STREAM} residual={kind} {ROWS}")
    assert_alone(drawn(resolved), 16)
    assert_counted(resolved)


def test_numbers_begin_with_the_newest_output_and_are_not_decayed():
    first = resolve(f"{STREAM} residual=dwa").encoder.weights()
    numbers = {weight.name: weight for weight in first if weight.name.startswith("residual.")}
    assert [len(numbers), sum(w.numel for w in numbers.values())] == [2 * DEPTH, 44]
    assert {weight.role for weight in numbers.values()} == {"norm"}
    model = build(resolve(f"{STREAM} residual=dwa"))
    assert dict(model.named_parameters())["encoder.residual.1.ffn"].tolist() == [0, 0, 0, 1]
