"""Gated feed-forward parts, norms and heads of today's encoders, beside their formulas."""

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.ir.base import TruncatedNormal
from bertc.learn.objectives.term import token_logits
from bertc.model import Model, build

TOY = "layers=2 hidden=24 heads=2 ffn=40 vocab=100 seq=16 dropout=0"
MODERN = (
    "norm=pre(bias=false, embeddings=true, first=false) activation=geglu(bias=false) "
    "head=transform(bias=false) segments=0"
)


def drawn(settings: str) -> tuple[Model, dict[str, torch.Tensor]]:
    """A model of random weights, biases and scales too, and its weights in fp64."""
    model = build(resolve(f"{TOY} {settings}")).eval()
    draw = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data.normal_(std=0.3, generator=draw)
    return model.double(), {name: w.detach() for name, w in model.double().named_parameters()}


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("geglu", F.gelu),
        ("swiglu", F.silu),
        ("geglu(bias=false)", F.gelu),
        ("swiglu(bias=outer)", F.silu),
    ],
)
def test_a_gated_part_multiplies_two_maps(activation, function):
    model, w = drawn(f"activation={activation}")
    assert callable(function)
    x = torch.randn(3, 7, 24, dtype=torch.float64)
    names = ("gate", "inner", "outer")
    gate, inner, outer = (w[f"encoder.ffn.1.{name}.weight"] for name in names)
    biases = [w.get(f"encoder.ffn.1.{name}.bias") for name in names]
    present = [bias is not None for bias in biases]
    assert (
        present == [False, False, "outer" in activation] if "bias" in activation else all(present)
    )
    gated = function(F.linear(x, gate, biases[0])) * F.linear(x, inner, biases[1])
    y = model.encoder.ffn["1"](x)  # type: ignore[index, operator, union-attr]
    torch.testing.assert_close(y, F.linear(gated, outer, biases[2]))


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


@pytest.mark.parametrize("affine", [True, False])
def test_an_rms_norm_has_the_gradients_of_its_formula(affine):
    model = build(resolve(f"{TOY} norm=pre(function=rms, affine={str(affine).lower()})"))
    norm = model.encoder.norm
    x = torch.randn(3, 7, 24, requires_grad=True)
    weight = torch.ones(24, requires_grad=True)
    if affine:
        torch.nn.init.normal_(norm.weight)  # type: ignore[union-attr, arg-type]
        weight = norm.weight.detach().double().requires_grad_()  # type: ignore[union-attr, operator]
    exact = x.detach().double().requires_grad_()
    y, expected = norm(x), rms(exact, weight)  # type: ignore[operator]
    torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)
    upstream = torch.randn(y.shape)
    y.backward(upstream)
    expected.backward(upstream.double())
    assert x.grad is not None
    torch.testing.assert_close(x.grad.double(), exact.grad, atol=1e-5, rtol=1e-5)
    if affine:
        grad = norm.weight.grad.double()  # type: ignore[union-attr, operator]
        torch.testing.assert_close(grad, weight.grad, atol=1e-5, rtol=1e-5)


def test_a_dynamic_tanh_is_its_formula():
    norm = build(resolve(f"{TOY} norm=pre(function=tanh)")).encoder.norm
    assert norm.alpha.item() == 0.5
    x = torch.randn(3, 7, 24)
    for values in norm.parameters():
        torch.nn.init.normal_(values)
    expected = norm.weight * torch.tanh(norm.alpha * x) + norm.bias
    torch.testing.assert_close(norm(x), expected)


def test_sandwich_norms_read_and_output():
    model, w = drawn("norm=sandwich(function=rms) activation=relu")
    x = torch.randn(2, 5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    part = model.encoder.ffn["1"]  # type: ignore[index]
    inner = F.relu(
        F.linear(
            rms(x, w["encoder.ffn.1.norm.weight"]),
            w["encoder.ffn.1.inner.weight"],
            w["encoder.ffn.1.inner.bias"],
        )
    )
    y = F.linear(inner, w["encoder.ffn.1.outer.weight"], w["encoder.ffn.1.outer.bias"])
    expected = x + rms(y, w["encoder.ffn.1.output_norm.weight"])
    residual = model.encoder.attention["1"].residual  # type: ignore[index]
    found, _ = residual.joined(part, x, part(part.norm(x)))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)  # sums in fp32


def test_a_first_layer_without_a_norm_reads_normed_embeddings():
    model, w = drawn(MODERN)
    assert "encoder.attention.0.norm.weight" not in w
    assert "encoder.attention.1.norm.weight" in w
    assert not [name for name in w if "norm.bias" in name or name == "heads.mlm.dense.bias"]
    model.compute_dtype = torch.float64
    ids = torch.randint(5, 100, (2, 16))
    before = model.encode(ids)
    # The embeddings' norm makes their scale irrelevant but for eps; without it, it would not be.
    for name in ("token", "position"):
        w[f"encoder.embeddings.{name}.weight"].mul_(100)
    torch.testing.assert_close(model.encode(ids), before, atol=1e-3, rtol=1e-3)


def test_an_untied_head_scores_by_its_own_table():
    model, w = drawn("head=linear(tied=false) E=16")
    states = torch.randn(4, 24, dtype=torch.float64)
    scores = token_logits(states, model.heads["mlm"], model.encoder)
    expected = F.linear(states, w["heads.mlm.weight"], w["heads.mlm.bias"])
    torch.testing.assert_close(scores, expected)


def test_older_programs_read_back_with_their_fingerprints():
    assert TruncatedNormal().model_dump() == {
        "kind": "truncated-normal", "std": 0.02, "glorot": False,
    }  # fmt: skip
    dumped = resolve("bert-tiny").encoder.model_dump()
    assert dumped["norm"] == {"kind": "post", "eps": 1e-12, "embeddings": True}
    assert dumped["head"] == {"kind": "transform"}
    again = resolve(f"{TOY} {MODERN}")
    assert type(again).model_validate_json(again.model_dump_json()) == again


@pytest.mark.parametrize(("size", "rows"), [(30_522, 30_528), (128, 128)])
def test_the_token_table_has_a_multiple_of_rows(size, rows):
    resolved = resolve(f"extends bert-tiny vocab=wordpiece({size}, multiple=64)")
    assert (resolved.vocabulary.size, resolved.encoder.vocab_size) == (size, rows)
    again = type(resolved).model_validate_json(resolved.model_dump_json())
    assert again.vocabulary == resolved.vocabulary
