"""The graphs that a step is compiled to: what they scatter, that none is compiled anew in a run.

Nothing is compiled here: graphs are traced, and looked at or run as they are.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch._dynamo.utils import counters
from torch.fx import GraphModule

from bertc.api import resolve
from bertc.ir.learning.objective import Mlm, Rtd, Sop, Term
from bertc.ir.network.generator import GeneratorNetwork
from bertc.learn.objectives import MicroBatch
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.step import TrainStep
from bertc.machine.graphs import graphs_so_far
from bertc.run.beginning.synthetic import RandomText
from bertc.run.train.loop import train
from tests.bench.rig import make_step
from tests.kinds import OBJECTIVES
from tests.traced import traced

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 precision=fp32 dropout=0"
CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore")  # The compiler's own.


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def step_and_micro_batches(
    extra: str, compiled: bool = False
) -> tuple[TrainStep, list[MicroBatch]]:
    """The step of a toy and its first batch."""
    resolved = resolve(f"{TOY} {extra}", ["microbatch=4"])
    step = make_step(resolved, 4, compiled=compiled)
    stage = resolved.stages[0]
    return step, step.read(to_inputs(RandomText(stage, 500).train(0), CPU)).micro_batches


SCATTERS = ("index_put", "index_add", "scatter", "embedding_dense_backward")
"""Sums into places that the data name. Under deterministic kernels Inductor leaves them to a sort
and to one warp that walks all entries of a place: 26 ms where a table has two rows."""
LEFT = {
    "nsp": {},
    "xlnet": {"index_put": 3},  # states that were asked for: every place at most a few times
}


@pytest.mark.parametrize("name", LEFT)
def test_what_the_compiled_step_scatters(name: str) -> None:
    found = Counter[str]()

    def look(graph: GraphModule) -> None:
        called = (n.target for n in graph.graph.nodes if n.op == "call_function")
        names = (getattr(each, "_opname", "") for each in called)
        found.update(n for n in names if any(part in n for part in SCATTERS))

    with traced(look):
        step, micro_batches = step_and_micro_batches(OBJECTIVES[name], compiled=True)
    step.try_out(micro_batches)
    # A part of one tensor that takes another's place has no places to look up.
    found = Counter(
        {n: k for n, k in found.items() if n not in ("select_scatter", "slice_scatter")}
    )
    assert found == LEFT[name]


def test_a_run_compiles_in_the_first_step_of_a_stage_alone(tiny, tmp_path, monkeypatch, cache):
    """The text, the rate and the stage change; the graphs of a stage stay, and none is broken."""
    seen: list[int] = []
    real = TrainStep.__call__

    def call(self, *arguments):
        result = real(self, *arguments)
        seen.append(graphs_so_far().compiled)
        return result

    monkeypatch.setattr(TrainStep, "__call__", call)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    counters.clear()
    both = tuple(Term(objective=each) for each in (Rtd(over="masked"), Mlm(), Sop()))
    stages = {"short": {"steps": 20, "seq": 16}, "long": {"steps": 20, "objective": both}}
    resolved = tiny(
        stages=stages, compile="on", microbatch=4, eval_every=8, save_every=40,
        generator=GeneratorNetwork(size=0.5),
    )  # fmt: skip
    train(resolved, tmp_path / "run", cache=cache, quiet=True)
    assert len(seen) == 40
    assert len(set(seen[:20])) == len(set(seen[20:])) == 1
    assert seen[0] < seen[-1]
    assert not counters["graph_break"]
    # Embeddings, layer, last layer and loss, for training and for evaluation: of the generator in
    # the first stage, in the second of two networks.
    assert counters["stats"]["unique_graphs"] <= (1 + 2) * 4 * 2


@pytest.mark.parametrize("elsewhere", ["a GPU", "compiled"])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_branches_of_other_machines_compute_the_same(objective: str, elsewhere: str) -> None:
    def gradients() -> dict[str, torch.Tensor]:
        step, micro_batches = step_and_micro_batches(objective)
        sums, *_ = step.gradients(micro_batches, 0)
        grown = {n: p.grad for n, p in step.parameters.items() if p.grad is not None}
        return {"losses": torch.stack(sums), **grown}

    here = gradients()
    whose = {
        "a GPU": patch("bertc.model.attend.eager_cpu", lambda x: False),
        "compiled": patch.object(torch.compiler, "is_compiling", lambda: True),
    }
    with whose[elsewhere]:
        there = gradients()
    assert here.keys() == there.keys()
    for name, tensor in here.items():
        most = tensor.abs().max().item()
        torch.testing.assert_close(there[name], tensor, atol=1e-4 * most + 1e-9, rtol=1e-4)
