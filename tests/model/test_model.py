"""Modules against the weight table, formulas written out, products counted, and compiled."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from bertc.api import resolve
from bertc.ir.base import TruncatedNormal
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives.term import token_logits
from bertc.model import Model, build
from tests.model import (
    material,
    test_causal as causal,
    test_disentangled as disentangled,
    test_positions as positions,
    test_relative as relative,
    test_two_streams as streams,
)
from tests.model.material import ROWS, assert_counted
from tests.run import test_electra as gdes

NEAR_AND_FAR = f"{disentangled.BASE}{disentangled.KIND} steps=10 "
SPECS = [
    *(f"{disentangled.DECODER}steps=10 {extra}" for extra in (
        "objective=mlm+nsp pack=true format=sentence-pair", "norm=pre objective=mlm(p=100%)",
        "objective=rtd*50+mlm generator=0.5 share=all E=16",
    )),
    *(f"{NEAR_AND_FAR}{extra}" for extra in (
        "objective=mlm", "objective=clm", "objective=plm", "objective=mlm share=attention E=16",
        "objective=clm memory=32 format=stream",
    )),
    *(f"{gdes.SPEC} steps=10 {extra}" for extra in ("", "pack=true")),
    *(f"{relative.BASE}{kind} head=linear" for kind in relative.KINDS),
    f"{relative.BASE}attention=relative".replace("seq=16", "seq=300"),  # worked on in strips
]  # fmt: skip
PERMUTED = [
    *(f"{streams.BASE}{kind}" for kind in streams.KINDS),
    *(f"layers=3 {causal.BASE}{causal.ROWS}{kind}" for kind in causal.KINDS),
]


@pytest.mark.parametrize("spec", SPECS)
def test_products_are_those_that_torch_counts(spec):
    assert_counted(resolve(f"{spec} {ROWS}"))


@pytest.mark.parametrize("extra", [kind for kind in positions.KINDS if "local" not in kind])
def test_products_of_positions_are_those_that_torch_counts(extra):
    assert_counted(positions.program(f"{extra} {ROWS} head=linear", "seq=24"))


@pytest.mark.parametrize("spec", PERMUTED)
def test_products_of_a_permutation_are_those_that_torch_counts(spec):
    assert_counted(resolve(f"{spec} {ROWS}"), train=1e-3)


TINY = "hidden=32 vocab=100 seq=16 dropout=0 "


def tiny(extra: str = "") -> Resolved:
    rest = [s for s in ("layers=4", "heads=4") if s.split("=")[0] not in extra]
    return resolve(" ".join([TINY, *rest, extra]))


def ids(batch: int = 2, seq: int = 12, vocab: int = 100) -> torch.Tensor:
    return torch.randint(0, vocab, (batch, seq), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("pooler", ["true", "relu", "tanh-relu"])
def test_a_pooler_applies_its_functions_in_order(pooler):
    model = build(tiny(f"pooler={pooler}"))
    w, hidden = dict(model.encoder.named_parameters()), model.encode(ids())
    dense = hidden[:, 0] @ w["pooler.weight"].T + w["pooler.bias"]
    tanh = dense if pooler == "relu" else (dense.exp() - (-dense).exp()) / (2 * dense.cosh())
    wanted = tanh if pooler == "true" else tanh * (tanh > 0)
    torch.testing.assert_close(model.pool(hidden), wanted)


@pytest.mark.parametrize("pooler", ["mean-gelu", "gelu-mean", "mean-transform"])
def test_a_mean_is_of_real_tokens(pooler):
    model = build(tiny(f"pooler={pooler}"))
    short_bsh, garbage_bsh = torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    real_bs = torch.arange(12).expand(2, 12) < 7
    padded = model.pool(torch.cat([short_bsh, garbage_bsh], 1), real_bs)
    torch.testing.assert_close(padded, model.pool(short_bsh))


def reference(model: Model, token_ids: torch.Tensor) -> torch.Tensor:
    """Post-norm BERT written out once more, from the tensors by name."""
    w = dict(model.encoder.named_parameters())
    node = model.resolved.encoder

    def affine(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + node.norm.eps).sqrt()
        return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.token.weight"][token_ids] + w["embeddings.segment.weight"][0]
    x = norm(x + w["embeddings.position.weight"][: token_ids.shape[1]], "embeddings.norm")
    if node.embedding != node.hidden:
        x = affine(x, "embeddings.project")
    for layer, widths in enumerate(node.layers):
        a, f = f"attention.{node.attention_owner[layer]}", f"ffn.{node.ffn_owner[layer]}"
        mixed = []
        for head in range(widths.heads):
            cut = slice(head * widths.head_dim, (head + 1) * widths.head_dim)
            q, k, v = (affine(x, f"{a}.{part}")[..., cut] for part in ("query", "key", "value"))
            mixed.append((q @ k.transpose(-1, -2) / widths.head_dim**0.5).softmax(-1) @ v)
        x = norm(x + affine(torch.cat(mixed, -1), f"{a}.output"), f"{a}.norm")
        x = norm(x + affine(F.gelu(affine(x, f"{f}.inner")), f"{f}.outer"), f"{f}.norm")
    return x


@pytest.mark.parametrize("extra", [
    "share=none", "share=all E=16", "share=groups(2) E=48 pooler=true",
    "share=map([0, 0, 2, 2], [0, 1, 1, 3])",
    "heads=[4, 2, 1, 8] head_dim=8 ffn=[64, 32, 16, 128]",
])  # fmt: skip
def test_forward_is_the_equation(extra):
    model = build(tiny(extra)).eval()
    torch.testing.assert_close(model.encode(ids()), reference(model, ids()), atol=2e-6, rtol=1e-5)


def test_initial_weights_depend_on_seed_and_name_alone():
    small, deep, other = build(tiny()), build(tiny("layers=6")), build(tiny("seed=1"))
    deep_weights, other_weights = dict(deep.named_parameters()), dict(other.named_parameters())
    for name, weight in small.named_parameters():
        assert torch.equal(weight, deep_weights[name]), name
        if weight.dim() == 2:
            assert not torch.equal(weight, other_weights[name]), name
    matrices = (p for p in small.parameters() if p.dim() == 2 and p.numel() > 50)
    drawn = [p.flatten()[:50] for p in matrices]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(drawn, 2))


WIDE = "layers=1 hidden=256 seq=16 vocab=4000"
GLOROT = "layers=1 hidden=256 embedding=128 seq=512 vocab=100 objective=rtd generator=unigram "
GLOROT += "initializer=normal(0.02, positions=0.01, glorot=true)"
DEEP = "layers=8 hidden=128 heads=2 ffn=512 vocab=100 seq=16 initializer=truncated-normal(0.02, "
DEEP += "cut=3, depth_scaled=true)"
UNIFORM = "layers=1 hidden=128 heads=2 ffn=512 vocab=100 seq=16 initializer=uniform(0.03)"


@pytest.mark.parametrize(("settings", "name", "std", "most"), [
    # A standard normal cut at 2 has standard deviation 0.8796, a uniform draw bound / sqrt(3).
    (WIDE, "encoder.embeddings.token.weight", 0.02 * 0.8796, 0.04),
    (GLOROT, "encoder.embeddings.project.weight", (2 / 384) ** 0.5, (6 / 384) ** 0.5),
    (GLOROT, "heads.rtd.weight", (2 / 257) ** 0.5, (6 / 257) ** 0.5),
    (GLOROT, "encoder.embeddings.position.weight", 0.01, 1.0),
    (DEEP, "encoder.attention.3.output.weight", 0.02 / 4, 0.06 / 4),
    (DEEP, "encoder.ffn.3.outer.weight", 0.02 / 4, 0.06 / 4),
    (DEEP, "encoder.ffn.3.inner.weight", 0.02, 0.06),
    (UNIFORM, "encoder.ffn.0.inner.weight", 0.03 / 3**0.5, 0.03),
])  # fmt: skip
def test_initial_weights_follow_their_distribution(settings, name, std, most):
    weight = build(resolve(settings)).get_parameter(name)
    assert weight.std().item() == pytest.approx(std, rel=0.1 if weight.numel() < 1000 else 0.02)
    assert weight.abs().max() <= most
    assert weight.mean().abs().item() < 5 * std / weight.numel() ** 0.5


def test_bf16_stays_near_fp32_and_leaves_weights_alone():
    model = build(tiny()).eval()
    exact = model.encode(ids())
    model.compute_dtype = torch.bfloat16
    rough = model.encode(ids())
    assert rough.dtype == torch.bfloat16
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert (rough.float() - exact).norm() / exact.norm() < 2e-2


def test_a_model_without_pooler_says_so():
    model = build(tiny("pooler=false"))
    with pytest.raises(ValueError, match="pooler=false"):
        model.pool(model.encode(ids()))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch hides it from all but errors
@pytest.mark.parametrize(("extra", "graphs"), [
    ("share=all layers=4 E=16", 2), ("share=attention layers=3", 2), ("layers=4 norm=pre", 3),
    ("layers=2 ffn=[64, 32]", 3),
])  # fmt: skip
def test_layers_alike_are_compiled_once(monkeypatch, extra, graphs):
    model = build(tiny(extra))
    plain = [hidden_and_gradient(model, lengths) for lengths in LENGTHS]
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    torch.compiler.reset()
    counters.clear()
    model.encoder.compile_regions()
    for lengths, wanted in zip(LENGTHS, plain, strict=True):
        # Not compiled, a CPU has kernels of its own, whose sums are in another order.
        found = hidden_and_gradient(model, lengths)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)
    assert counters["stats"]["unique_graphs"] == graphs
    # Evaluation has its own graphs, and limits that are made for all of them.
    with torch.no_grad():
        model.eval().encode(ids(), None, torch.ones(2, 12, dtype=torch.bool))
    assert counters["stats"]["unique_graphs"] == 2 * graphs
    assert not counters["graph_break"]


LENGTHS = [(12, 5), (12, 12), (1, 7)]


def hidden_and_gradient(model: Model, lengths: tuple[int, ...]) -> list[torch.Tensor]:
    """Of rows of real tokens, the rest padding: hidden states, and a gradient of every weight."""
    mask_bs = torch.arange(12) < torch.tensor(lengths)[:, None]
    hidden_bsh = model.encode(ids(), None, mask_bs)
    weights = [w for n, w in model.encoder.named_parameters() if not n.startswith("pooler")]
    return [hidden_bsh, *torch.autograd.grad(hidden_bsh.square().sum(), weights)]


@pytest.mark.parametrize("extra", ["", "norm=pre", "share=all E=8", "layers=1"])
def test_few_outputs_padding_and_packing_change_no_state(extra):
    material.assert_alone(material.drawn(tiny(extra), 0.3), 8)


TOY = "layers=2 hidden=24 heads=2 ffn=40 vocab=100 seq=16 dropout=0"
MODERN = "norm=pre(bias=false, embeddings=true, first=false) activation=geglu(bias=false) "
MODERN += "head=transform(bias=false) segments=0"


def drawn(settings: str) -> tuple[Model, dict[str, torch.Tensor]]:
    """A model of random weights, biases and scales too, and its weights in fp64."""
    model = build(resolve(f"{TOY} {settings}")).eval()
    draw = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data.normal_(std=0.3, generator=draw)
    return model.double(), {name: w.detach() for name, w in model.double().named_parameters()}


@pytest.mark.parametrize(
    "activation", ["geglu", "swiglu", "geglu(bias=false)", "swiglu(bias=outer)"]
)
def test_a_gated_part_multiplies_two_maps(activation):
    model, w = drawn(f"activation={activation}")
    x = torch.randn(3, 7, 24, dtype=torch.float64)
    names = ("gate", "inner", "outer")
    gate, inner, outer = (w[f"encoder.ffn.1.{name}.weight"] for name in names)
    biases = [w.get(f"encoder.ffn.1.{name}.bias") for name in names]
    mapped = "bias" not in activation, "bias=false" not in activation
    assert [bias is not None for bias in biases] == [mapped[0], *mapped]
    function = F.gelu if "geglu" in activation else F.silu
    gated = function(F.linear(x, gate, biases[0])) * F.linear(x, inner, biases[1])
    y = model.encoder.ffn["1"](x)  # type: ignore[index, operator, union-attr]
    torch.testing.assert_close(y, F.linear(gated, outer, biases[2]))


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
    y = norm(x)  # type: ignore[operator]
    expected = exact / (exact.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)
    upstream = torch.randn(y.shape)
    y.backward(upstream)
    expected.backward(upstream.double())
    torch.testing.assert_close(x.grad.double(), exact.grad, atol=1e-5, rtol=1e-5)
    if affine:
        grad = norm.weight.grad.double()  # type: ignore[union-attr, operator]
        torch.testing.assert_close(grad, weight.grad, atol=1e-5, rtol=1e-5)


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
    torch.testing.assert_close(scores, F.linear(states, w["heads.mlm.weight"], w["heads.mlm.bias"]))


def test_older_programs_read_back_with_their_fingerprints():
    initial = {"kind": "truncated-normal", "std": 0.02, "glorot": False}
    assert TruncatedNormal().model_dump() == initial
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
