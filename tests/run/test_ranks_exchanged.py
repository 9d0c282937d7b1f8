"""Compiled steps of several processes, and checkpoints that go from one layout to another."""

import errno
import os
import shutil
import sys
import threading
from functools import partial

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

from bertc.cost.planning.world import World
from bertc.ir.methods.average import Ema
from bertc.ir.network.sharing import ShareAttention
from bertc.learn.step.step import TrainStep
from bertc.machine import process_group
from bertc.run.records import sharded
from bertc.run.stepper import graphs_so_far
from bertc.run.train import loop
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
        graphs = graphs_so_far()[0]
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


def without_a_disk(rank, per_host):
    """Runs named whole have no disk that all see; in others one writes step 2 in later steps."""
    world, step = process_group.world_here, TrainStep.__call__
    make_files, write, later = sharded.make_files, sharded.write_parts, threading.Event()
    loop.world_here = process_group.world_here = lambda: (rank, World(world()[1].size, per_host))
    sharded.make_files = lambda parent, *rest: (
        make_files(parent, *rest) and not str(parent.parent).endswith("whole")
    )

    def call(self, inputs, at, *arguments):
        result = step(self, inputs, at, *arguments)
        if at == 3:
            later.set()
        return result

    def wait_and_write(parent, at, *rest):
        assert rank == 0 or at != 2 or later.wait(60), "training waits for a checkpoint"
        write(parent, at, *rest)

    TrainStep.__call__, sharded.write_parts = call, wait_and_write


@pytest.mark.parametrize(("size", "per_host"), [(3, 3), (4, 2)])
def test_processes_write_together_what_one_writes(together, tiny, tmp_path, size, per_host):
    """Of uneven parts and of copies: while training goes on, and to the byte."""
    settings = {"objective": PAIRS, "average": Ema(half_life=2), "save_every": 2, "steps": 4,
                "eval_every": 4, "strategy": "fsdp" if size == per_host else "hsdp"}  # fmt: skip
    programs = {"parts": tiny(**settings), "whole": tiny(**settings)}
    harm = partial(without_a_disk, per_host=per_host)
    assert together(size, programs, harm) == ([0] * size, [])
    parts, whole = (
        {path.relative_to(tmp_path / name): path.read_bytes()
         for path in (tmp_path / name / "checkpoints").rglob("*.safetensors")}
        for name in programs
    )  # fmt: skip
    assert len(parts) == 6
    assert parts == whole


def fill_the_disk(rank):
    if rank == 1:

        def write(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        os.pwrite = write


def test_a_disk_that_is_full_for_one_is_said_by_the_first(together, tiny, tmp_path):
    codes, said = together(2, tiny(steps=2, strategy="fsdp"), fill_the_disk)
    assert codes == [74, 74]
    ((rank, message),) = said
    assert (rank, message.partition(" (")[0]) == (
        0, f"cannot write {tmp_path}/run/checkpoints/step-00000002: the disk is full"
    )  # fmt: skip
    assert [*(tmp_path / "run" / "checkpoints").iterdir()] == []
