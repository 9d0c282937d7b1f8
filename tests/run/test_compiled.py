"""Gradients are the same: compiled and eager, of layers computed once or twice, on any machine.
One step is compiled whole, as in tests/campaigns/compiled.py. Of the others the graphs are traced
and run as they are: two streams and recomputation show in those, and what kernels make of them the
campaign holds.

A kernel of these toys takes g++ 0.2 s, and starting it with Inductor's header 0.5 s. So kernels
wait until the first of them is called, and are compiled with all the others that wait: their text
and flags stay Inductor's own.
"""

import ctypes
from collections import Counter
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from torch._inductor import config as inductor
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch.fx import GraphModule

from bertc.api import resolve
from tests.bench.estimates import allocated_bytes
from tests.bench.rig import make_step, random_rows
from tests.campaigns.compiled import differing
from tests.kinds import OBJECTIVES
from tests.traced import traced

TOY = "hidden=64 heads=2 ffn=128 vocab=300 seq=32 batch=8 steps=10 dropout=0 precision=fp32 "
GROUPED = (
    f"{TOY} objective=clm share=groups(2) layers=4 "
    "attention=full(norm=layer, over=width) residual=plain(30) table=whole(dropped=5)"
)
XLNET = f"{TOY} objective=plm attention=relative(untie=true,segments=true) microbatch=4 layers=2"
TEACHER = "teacher=spec('layers=2 hidden=32 heads=2 ffn=32 seq=32 vocab=300')"
RECOMPUTED = f"{TOY} objective=mlm+kd(attention)+kd(relations,heads=4) {TEACHER} norm=pre "
RECOMPUTED += "pack=true recompute=on share=all layers=2"
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # The compiler's own.
    pytest.mark.usefixtures("nothing_compiled"),
]
SCATTERS = ("index_put", "index_add", "scatter", "embedding_dense_backward")
"""Sums into places that the data name. Under deterministic kernels Inductor leaves them to a sort
and to one warp that walks all entries of a place: 26 ms where a table has two rows."""
PLACED = ("select_scatter", "slice_scatter")
"""A part of one tensor that takes another's place has no places to look up."""
Kernel = Callable[..., None]


class Libraries(CppPythonBindingsCodeCache):
    """Compiled as kernels are that Python binds, and loaded without a binding."""

    cache = {}

    @classmethod
    def _load_library_inner(cls, path: str, key: str) -> ctypes.CDLL:
        return ctypes.CDLL(path)


class Kernels:
    """The kernels of all graphs, by names of their own; ``waiting`` have no code yet."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self.compiled: dict[str, Kernel] = {}

    def bind(self, types: list[str], source: str) -> Kernel:
        """Take the place of ``AsyncCompile.cpp_pybinding``."""
        name = f"kernel_{len(self.waiting) + len(self.compiled)}"
        assert source.count(" kernel(") == 1
        self.waiting[name] = source.replace(" kernel(", f" {name}(")
        kinds = [ctypes.c_void_p if "*" in kind else ctypes.c_int64 for kind in types]

        def kernel(*values: torch.Tensor | int) -> None:
            if name in self.waiting:
                self.compile()
            plain = (v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values)
            self.compiled[name](*(kind(v) for kind, v in zip(kinds, plain, strict=True)))

        return kernel

    def compile(self) -> None:
        """Make one library of all that wait."""
        library = Libraries.load("\n".join(self.waiting.values()))
        self.compiled |= {name: library[name] for name in self.waiting}
        self.waiting.clear()


def test_compiled_gradients_are_those_of_the_eager_step(monkeypatch):
    kernels = Kernels()
    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", kernels.bind)
    # A cached graph may be for other vector instructions than those that torch is held to now.
    monkeypatch.setattr(inductor, "fx_graph_cache", False)
    weights, off = differing(GROUPED)
    assert weights > 20
    assert not off
    assert kernels.compiled


@pytest.mark.parametrize(("spec", "scattered"), [
    (XLNET, {"index_put": 1}),  # states that were asked for: every place at most a few times
    (RECOMPUTED, {"index_put": 1}),  # a teacher reads all states, so these are picked
], ids=["xlnet", "recomputed"])  # fmt: skip
def test_gradients_of_compiled_graphs_are_those_of_the_eager_step(spec, scattered):
    names = list[str]()

    def look(graph: GraphModule) -> None:
        called = (node.target for node in graph.graph.nodes if node.op == "call_function")
        names.extend(getattr(target, "_opname", "") for target in called)

    with traced(look):
        weights, off = differing(spec)
    assert weights > 20
    assert not off
    assert names
    places = (name for name in names if any(part in name for part in SCATTERS))
    assert Counter(name for name in places if name not in PLACED) == scattered


def gradients(spec: str, *changed: str) -> dict[str, torch.Tensor]:
    """Of one step in micro-batches of four, by weight, and the sums of its losses."""
    resolved = resolve(spec, [*changed])
    step = make_step(resolved, 4)
    sums, *_ = step.gradients(step.read(random_rows(resolved)).micro_batches, 0)
    grown = {n: p.grad for n, p in step.parameters.items() if p.grad is not None}
    return {"losses": torch.stack(sums), **grown}


@pytest.mark.parametrize("extra", [
    "", "share=all", "norm=pre", "share=attention format=segment-pair",
    "objective=rtd*50+mlm generator=0.5",
])  # fmt: skip
def test_gradients_are_the_same_to_the_bit(extra):
    spec = f"layers=3 hidden=32 heads=4 vocab=300 seq=32 batch=8 steps=100 precision=fp32 {extra}"
    once, twice = gradients(f"{spec} recompute=off"), gradients(f"{spec} recompute=on")
    assert once.keys() == twice.keys()
    assert resolve(spec).encoder.dropout.hidden > 0
    for name, gradient in once.items():
        assert torch.equal(gradient, twice[name]), name


def test_depth_costs_little_memory():
    spec = "hidden=32 heads=4 vocab=300 seq=64 batch=16 microbatch=16 steps=100"
    grown = {
        recompute: allocated_bytes(resolve(f"layers=6 {spec} recompute={recompute}"), 1)
        - allocated_bytes(resolve(f"layers=3 {spec} recompute={recompute}"), 1)
        for recompute in ("off", "on")
    }
    assert grown["on"] < grown["off"] / 5


SMALL = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 precision=fp32 dropout=0"


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_branches_of_other_machines_compute_the_same(objective):
    spec = f"{SMALL} {objective}", "microbatch=4"
    here = gradients(*spec)
    others = {
        "a GPU": patch("bertc.model.attention.attend.eager_cpu", lambda x: False),
        "compiled": patch.object(torch.compiler, "is_compiling", lambda: True),
    }
    for machine, pretended in others.items():
        with pretended:
            there = gradients(*spec)
        assert here.keys() == there.keys()
        for name, tensor in here.items():
            near = {"atol": 1e-4 * tensor.abs().max().item() + 1e-9, "rtol": 1e-4}
            torch.testing.assert_close(
                there[name], tensor, **near, msg=lambda text, machine=machine: f"{machine}: {text}"
            )
