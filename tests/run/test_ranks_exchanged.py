"""Compiled steps of several processes, and checkpoints that go from one layout to another."""

import shutil
import sys
from functools import partial

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

from bertc.ir.network.sharing import ShareAttention
from bertc.learn.step.step import TrainStep
from bertc.machine.profile import graphs_so_far
from tests.run.test_ranks import AT_THE_END, CALM, PAIRS, SHORT, ask_one, losses, straight, together

__all__ = ["together"]  # a fixture


def trace(rank):
    """Trace in one of the processes what would be compiled; leave the others eager.

    End where a step after the first has new graphs.
    """
    if rank > 0:
        torch.compile = lambda function, **_: function
        return
    torch.compile = partial(torch.compile, backend="eager")
    step, seen = TrainStep.__call__, {}

    def call(self, *arguments):
        result = step(self, *arguments)
        graphs = graphs_so_far().compiled
        return result if seen.setdefault(self, graphs) == graphs else sys.exit("compiled anew")

    TrainStep.__call__ = call


def test_compiled_steps_of_two_processes_learn_what_one_does(together, tiny, tmp_path):
    settings = {"dropout": CALM, "objective": PAIRS, "microbatch": 2, "steps": 4, "eval_every": 4}
    one = straight(tiny(**settings), tmp_path)
    programs = {way: tiny(**settings, compile="on", strategy=way) for way in ("ddp", "fsdp")}
    assert together(2, programs, trace) == ([0, 0], [])
    for strategy in programs:
        assert losses(tmp_path / strategy) == pytest.approx(one, rel=1e-5, abs=1e-6)


def count_gathers(rank):
    """End where FSDP gathers other than two layers, twice each, and the root.

    After an evaluation the root is there.
    """
    real, step, seen = groups.foreach_all_gather, TrainStep.__call__, []

    def gather(weights, *arguments):
        seen.append(len(weights))
        return real(weights, *arguments)

    def call(*arguments):
        seen.clear()
        result = step(*arguments)
        return result if len(seen) in (4, 5) else sys.exit(f"gathered {seen}")

    groups.foreach_all_gather, TrainStep.__call__ = gather, call


def test_a_layer_is_gathered_at_once(together, tiny, tmp_path):
    settings = {"dropout": CALM, "objective": PAIRS, **SHORT, **AT_THE_END}
    ways = {"bf16": {"precision": "bf16"}, "shared": {"share": ShareAttention()}}
    programs = {name: tiny(**settings, **own, strategy="fsdp") for name, own in ways.items()}
    assert together(2, programs, count_gathers) == ([0, 0], [])
    for (name, own), close in zip(ways.items(), (1e-2, 1e-5), strict=True):
        one = straight(tiny(**settings, **own), tmp_path, f"one {name}")
        assert losses(tmp_path / name) == pytest.approx(one, rel=close, abs=1e-6)


def test_four_processes_and_two_exchange_checkpoints(together, tiny, tmp_path):
    """Whole weights and parts of them, each from the other's."""
    settings = {"dropout": CALM, "objective": PAIRS, "log_every": 1, "microbatch": 2,
                "steps": 6, "eval_every": 6, **AT_THE_END}  # fmt: skip
    one = straight(tiny(**settings), tmp_path)
    other = {"ddp": "fsdp", "fsdp": "ddp"}
    by_four = {f"{way} by four": tiny(**settings, strategy=way) for way in other}
    codes, said = together(4, by_four, ask_one)
    assert (codes, said) == ([143] * 4, [(0, "stopped after step 5, and saved")] * 2)
    by_two = {f"{then} by two": tiny(**settings, strategy=then) for then in other.values()}
    for first, then in other.items():
        shutil.copytree(tmp_path / f"{first} by four", tmp_path / f"{then} by two")
    assert together(2, by_two, resume=True) == ([0, 0], [])
    for run in by_two:
        assert losses(tmp_path / run) == pytest.approx(one, rel=1e-5, abs=1e-6)
