"""The kernels in C compute what torch computes, and a machine without a compiler does without."""

import pytest
import torch
import torch.nn.functional as F

from bertc.ir.base import ZEROS, Weight
from bertc.ir.network.norm import LayerNorm as LayerNormNode, NormFunction, RmsNorm as RmsNormNode
from bertc.learn.objectives.softmax import cross_entropy
from bertc.model.attention.attend import attend
from bertc.model.attention.masks import Mask
from bertc.model.ffn import activate, activated, gate_activated
from bertc.model.native import kernels as tensors, library
from bertc.model.native.kernels import drop, dropout, kernels_for, missing
from bertc.model.norm import build_norm, sum_and_norm
from bertc.model.positions import Angles, Rotation
from bertc.model.weights import Linear

RATE = 0.3
TYPES = pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 5e-6), (torch.bfloat16, 2e-2)])
Tensors = tuple[torch.Tensor, ...]


def kernels(dtype):
    found = kernels_for(torch.ones(1, dtype=dtype))
    if found is None:
        pytest.skip(missing("fp32"))
    return found


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(tensors, "_kernels", lambda value: None)


def mask(shape, dtype, seed, rate):
    """What rows of that shape are multiplied by if the next draw follows this seed, in fp64."""
    torch.manual_seed(seed)
    ones = torch.ones(shape, dtype=torch.float32)
    return kernels(torch.float32).dropout(ones, drop(rate), shape[-1]).double()


def agree(y, of, exact, exact_of, close):
    """Values and gradients, those of ``exact`` made by autograd in fp64."""
    upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
    made = (y, *torch.autograd.grad(y, of, upstream))
    expected = (exact, *torch.autograd.grad(exact, exact_of, upstream.double()))
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one.double(), other, atol=close, rtol=close)


def leaves(*given):
    return tuple(t.detach().double().requires_grad_() for t in given)


@TYPES
def test_gelu(dtype, close):
    kernels(dtype)
    table = {"l.weight": Weight("l.weight", (501, 16), (), ZEROS, "ffn", "matrix")}
    linear = Linear(table | {"l.bias": Weight("l.bias", (501,), (), ZEROS, "ffn", "bias")}, "l")
    torch.manual_seed(0)
    torch.nn.init.normal_(linear.weight, std=0.25)
    # Far from 0 as well; in bf16 the product is rounded before the bias is added, as by the map.
    torch.nn.init.uniform_(linear.bias, -30, 30)
    x = torch.randn(3, 7, 16).to(dtype).requires_grad_()
    of = (x, linear.weight, linear.bias)
    exact = leaves(*of)
    expected = F.gelu(F.linear(*exact), approximate="tanh")
    agree(activated("gelu-tanh", linear, x), of, expected, exact, 10 * close)


@TYPES
@pytest.mark.parametrize("kind", ["gelu", "gelu-tanh", "silu"])
def test_gated_parts(dtype, close, kind):
    kernels(dtype)
    torch.manual_seed(0)
    x = (10 * torch.randn(3, 7, 2 * 77)).to(dtype).requires_grad_()
    (exact,) = leaves(x)
    gate, inner = exact.chunk(2, dim=-1)
    made = gate_activated(kind, x)
    assert made.grad_fn.name() == "_FunctionBackward"
    agree(made, (x,), activate(kind, gate) * inner, (exact,), 10 * close)


@TYPES
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("lanes", [1, 3])
def test_turns(dtype, close, interleaved, lanes, monkeypatch):
    """Of a part of a wider product, with numbers that do not turn, as without kernels."""
    kernels(dtype)
    torch.manual_seed(0)
    wide = torch.randn(3, 5, 2, 3 * 22).to(dtype).requires_grad_()
    (exact,) = leaves(wide)
    angles = Angles(*torch.randn(2, lanes, 5, 1, 8).unbind())
    turning = Rotation(angles, angles, interleaved)
    made = turning.turned(wide[..., 22:44], angles)
    assert made.is_contiguous()
    expected = turning.turned(exact[..., 22:44], Angles(*(x.double() for x in angles)))
    agree(made, (wide,), expected, (exact,), close)


NORMS: dict[str, NormFunction] = {
    "layer": LayerNormNode(eps=1e-5), "layer, scale": LayerNormNode(eps=1e-5, bias=False),
    "layer, bare": LayerNormNode(eps=1e-5, affine=False), "rms": RmsNormNode(eps=1e-5),
    "rms, bare": RmsNormNode(eps=1e-5, affine=False),
}  # fmt: skip


def exact_norm(node, x, weights):
    if isinstance(node, LayerNormNode):
        return F.layer_norm(x, x.shape[-1:], *weights, eps=node.eps)
    return F.rms_norm(x, x.shape[-1:], *weights, eps=node.eps)


@TYPES
@pytest.mark.parametrize("rate", [0.0, RATE])
@pytest.mark.parametrize("node", NORMS.values(), ids=NORMS)
def test_norm_of_a_sum_and_alone(dtype, close, rate, node):
    kernels(dtype)
    norm = build_norm({w.name: w for w in node.weights("n", "hidden", 53)}, "n", node)
    weights = tuple(norm.parameters())
    torch.manual_seed(0)
    for weight in weights:
        torch.nn.init.normal_(weight)
    x, y = (torch.randn(7, 11, 53).to(dtype).requires_grad_() for _ in range(2))
    exact = leaves(x, y, *weights)
    kept = mask((77, 53), dtype, 5, rate).view(7, 11, 53)
    # The stream goes on beside its norm, or nothing but the norm is read.
    for share in (0, 1):
        torch.manual_seed(5)
        sums, normed = sum_and_norm(norm, x, y, rate)
        assert normed.grad_fn.name() == "_NormedBackward"
        total = exact[0] + exact[1] * kept
        expected = exact_norm(node, total, exact[2:]) + share * total
        # Gradients of weights are sums over all rows.
        made = normed + sums if share else normed
        agree(made, (x, y, *weights), expected, exact, 10 * close)
    alone = exact_norm(node, exact[0], exact[2:])
    agree(norm(x), (x, *weights), alone, (exact[0], *exact[2:]), 10 * close)


@TYPES
@pytest.mark.parametrize("masked", [False, True])
def test_attention(dtype, close, masked):
    kernels(dtype)
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, 9, 8).to(dtype).requires_grad_() for _ in range(3))
    real = torch.arange(9)[None] < torch.tensor([[9], [4], [6]])
    allowed = real[:, None, None] if masked else None
    exact = leaves(q, k, v)
    kept = mask((54, 9), dtype, 5, RATE).view(3, 2, 9, 9)
    scores = exact[0] @ exact[1].mT / 8**0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    expected = (scores.softmax(-1) * kept) @ exact[2]
    torch.manual_seed(5)
    agree(attend(q, k, v, Mask(allowed), RATE), (q, k, v), expected, exact, close)


def test_attention_without_a_compiler(no_compiler):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 1, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def attention(*qkv):
        torch.manual_seed(5)
        return attend(*qkv, Mask(), RATE)

    assert torch.autograd.gradcheck(attention, (q, k, v))


@TYPES
def test_loss(dtype, close, monkeypatch):
    kernels(dtype)
    torch.manual_seed(0)
    x, table = (torch.randn(n, 16).to(dtype).requires_grad_() for n in (33, 1111))
    bias, chances = torch.randn(1111, requires_grad=True), torch.rand(33)
    targets = torch.randint(1000, (33,))
    targets[:20] = (x @ table.mT).argmax(1)[:20].clamp(max=999)

    def found():
        losses, hits, drawn = cross_entropy.vocabulary_loss(x, table, bias, targets, chances, 1000)
        return losses, hits, drawn, *torch.autograd.grad(losses.sum(), (x, table, bias))

    native = found()
    monkeypatch.setattr(cross_entropy, "kernels_for", lambda *tensors: None)
    for one, other in zip(native, found(), strict=True):
        torch.testing.assert_close(one, other, atol=close, rtol=close)
    assert native[1].any()


@pytest.mark.parametrize("compiler", [True, False])
def test_backward_drops_what_forward_dropped(compiler, request):
    if not compiler:
        request.getfixturevalue("no_compiler")
    x = torch.ones(301, 77, requires_grad=True)
    y = dropout(x, RATE, training=True)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(y, grad)


def test_masks_of_rows_and_of_seeds_are_unlike():
    one, other = ((mask((2000, 129), torch.float32, n, 0.1) == 0).double() for n in (0, 1))
    neighbours = (one[1:], one[:-1]), (one[:, 64:128], one[:, :64]), (one[:, 1:], one[:, :-1])
    for a, b in ((one, other), *neighbours):
        assert (a * b).mean().item() == pytest.approx(0.01, abs=0.002)
    assert one.mean(1).std().item() == pytest.approx((0.1 * 0.9 / 129) ** 0.5, rel=0.1)
    assert one.mean(0).std().item() == pytest.approx((0.1 * 0.9 / 2000) ** 0.5, rel=0.3)


def test_threads_change_no_bit():
    native = kernels(torch.float32)
    x, weight = torch.randn(700, 64, requires_grad=True), torch.rand(64)
    how = (weight, weight, 1e-5, True)
    threads = torch.get_num_threads()
    found = []
    try:
        for many in (1, 3):
            torch.set_num_threads(many)
            torch.manual_seed(0)
            out, *kept = native.norm(x, x, *how, drop(RATE))
            found.append((out, *kept, *native.norm_backward(x, x, *kept, weight, True, drop(RATE))))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, *found))


def test_a_library_that_others_may_replace_is_not_loaded(monkeypatch, tmp_path):
    kernels(torch.float32)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "COMPILER_FLAGS", ("-O0", *library.COMPILER_FLAGS[1:]))
    load = library.load_library.__wrapped__
    assert not isinstance(load("fp32"), str)
    (folder,) = tmp_path.iterdir()
    (path,) = folder.glob("*.so")
    whole = path.read_bytes()
    path.unlink()  # the present one stays in memory
    path.write_bytes(whole[:5000])
    assert not isinstance(load("fp32"), str)
    path.unlink()
    path.mkdir()  # as when another entry of the cache is put in its place
    assert not isinstance(load("fp32"), str)
    renamed = [file.rename(folder / f"other{file.suffix}") for file in folder.iterdir()]
    assert not library._is_whole(max(renamed)), "a library is bound to its name"
    folder.chmod(0o777)
    assert load("fp32") == f"{folder} can be written by other users"
    folder.chmod(0o700)


def test_missing_compilers_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    open_library = library.load_library.__wrapped__
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    assert open_library("fp32") == "no C compiler (cc) is installed"
    monkeypatch.setattr(library.shutil, "which", lambda name: "/bin/false")
    assert open_library("fp32") == "/bin/false cannot compile them"
    assert next(tmp_path.glob("kernels-*/*"), None) is None, "nothing is left of what failed"
