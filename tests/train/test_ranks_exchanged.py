"""Compiled steps of several processes, and checkpoints that go from one layout to another."""

import shutil
from functools import partial

import pytest
import torch

from tests.train.test_ranks import (
    CALM,
    PAIRS,
    ask_one,
    losses,
    straight,
    together,
)

__all__ = ["together"]  # a fixture


def trace(rank):
    """Compile as far as code is made of it."""
    torch.compile = partial(torch.compile, backend="aot_eager")


def test_compiled_steps_of_two_processes_learn_what_one_does(together, tiny, tmp_path):
    settings = {"dropout": CALM, "objective": PAIRS, "microbatch": 2, "steps": 4, "eval_every": 4}
    one = straight(tiny(**settings), tmp_path)
    resolved = tiny(**settings, compile="on", strategy="ddp")
    assert together(2, resolved, "two", harm=trace) == ([0, 0], [])
    assert losses(tmp_path / "two") == pytest.approx(one, rel=1e-5, abs=1e-6)


def test_four_processes_and_two_exchange_checkpoints(together, tiny, tmp_path):
    """Whole weights and parts of them, each from the other's."""
    settings = {"dropout": CALM, "objective": PAIRS, "log_every": 1, "microbatch": 2}
    one = straight(tiny(**settings), tmp_path)
    for first, then in (("ddp", "fsdp"), ("fsdp", "ddp")):
        run = f"{first} by four"
        codes, said = together(4, tiny(**settings, strategy=first), run, harm=ask_one)
        assert (codes, said) == ([143] * 4, [(0, "stopped after step 5, and saved")])
        shutil.copytree(tmp_path / run, tmp_path / f"{then} by two")
        resolved = tiny(**settings, strategy=then)
        assert together(2, resolved, f"{then} by two", resume=True) == ([0, 0], [])
        assert losses(tmp_path / f"{then} by two") == pytest.approx(one, rel=1e-5, abs=1e-6)
