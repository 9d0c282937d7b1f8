"""A step that goes wrong leaves all as it was; docs/step.md names its functions in their order.
Batches made together are those made alone.
"""

import itertools
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bertc.api import resolve
from bertc.base.diagnostics import DataError
from bertc.cost.planning.plan import Plan
from bertc.ir.program.resolved import model_weights
from bertc.learn.objectives import VocabTensors
from bertc.learn.step import feed, micro_batches
from bertc.learn.step.feed import Batch, text_feed, to_inputs
from bertc.learn.step.micro_batches import corruption, split
from bertc.learn.step.step import _seed_draws
from bertc.model import build
from bertc.run.beginning import synthetic
from bertc.text.batches.batch import RawBatch, empty_batch

SPEC = "layers=1 hidden=16 heads=2 vocab=64 seq=16 batch=4 microbatch=2 steps=9 compile=off"
State = Callable[[], list[torch.Tensor]]
CPU = torch.device("cpu")


def first_step(resolved, microbatch):
    """The first step of a program on this processor."""
    plan = Plan("cpu", "fp32", (microbatch,), (False,), False, ())
    return synthetic.first_step(resolved, build(resolved), plan)


@pytest.fixture(params=["adam", "lamb"])
def made(request, monkeypatch):
    """A step, its batches, and the weights and moments that it changes."""
    resolved = resolve(f"{SPEC} optimizer={request.param}")
    kept = list[dict[str, torch.Tensor]]()
    zero_moments = synthetic.zero_moments

    def keep(*given):
        kept.append(zero_moments(*given))
        return kept[0]

    monkeypatch.setattr(synthetic, "zero_moments", keep)
    step = first_step(resolved, 2)

    def state():
        tensors = itertools.chain(step.parameters.values(), *(m.values() for m in kept))
        return [tensor.detach().clone() for tensor in tensors]

    text = synthetic.RandomText(resolved.stages[0], 64)
    with text_feed(text, 0, 9, CPU, step.corrupt) as feed:
        yield step, feed, state


def same(one, other):
    return all(map(torch.equal, one, other))


@pytest.mark.parametrize("infinite", [math.nan, math.inf])
def test_weights_and_moments_outlive_a_bad_step(made, infinite):
    step, feed, state = made
    step(feed.take(), 0, 0.01)
    before, objective = state(), step._objective

    def bad(*arguments):
        loss, statistics, memory = objective(*arguments)
        return loss * torch.tensor(infinite), statistics, memory

    step._objective = bad
    batch = feed.take()
    with pytest.raises(DataError, match="step 1: the gradient of mlm is not finite"):
        step(batch, 1, 0.01)
    assert same(before, state())
    step._objective = objective
    step(batch, 1, 0.01)
    assert not same(before, state())


def test_the_next_batch_is_taken_before_any_weight_moves(made):
    step, feed, state = made
    before = state()

    def fails():
        assert same(before, state())
        raise MemoryError

    pytest.raises(MemoryError, step, feed.take(), 0, 0.01, fails)
    assert same(before, state())
    step(feed.take(), 0, 0.01, feed.look_ahead)
    assert feed._ready
    assert not same(before, state())


def test_draws_on_a_cpu_are_those_of_torch_s_own_seed():
    for seed in (0, 5, 2**63 + 5):
        torch.manual_seed(seed)
        drawn = torch.rand(4)
        _seed_draws(CPU, seed)
        assert torch.equal(torch.rand(4), drawn)


@pytest.mark.parametrize("clip", [0.05, 0])
@pytest.mark.parametrize("microbatch", [4, 1])
def test_each_tensor_clipped_apart_is_bert_adam(clip, microbatch):
    """Against BertAdam.step in plain torch (pytorch_pretrained_bert, optimization.py)."""
    rule = f"adamw(0.01, warmup=0, schedule=constant, bias_correction=false, clip={clip:g}, "
    spec = SPEC.replace("microbatch=2", f"microbatch={microbatch}")
    resolved = resolve(f"{spec} optimizer={rule}clip_per=tensor)")
    step = first_step(resolved, microbatch)
    roles = {weight.name: weight.role for weight in model_weights(resolved)}
    wanted = {name: weight.detach().clone() for name, weight in step.parameters.items()}
    moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in wanted.items()}
    clipped = set()
    text = synthetic.RandomText(resolved.stages[0], 64)
    with text_feed(text, 0, 3, CPU, step.corrupt) as feed:
        for number in range(3):
            batch = feed.take()
            step.gradients(batch.micro_batches, number)
            for name, weight in step.parameters.items():
                if weight.grad is None:
                    continue
                before = weight.grad.norm()
                if clip:
                    torch.nn.utils.clip_grad_norm_([weight], clip)
                clipped.add(bool(weight.grad.norm() < 0.99 * before))
                mean, square = moments[name]
                mean.lerp_(weight.grad, 0.1)
                square.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                update = mean / (square.sqrt() + 1e-6)
                if roles[name] in ("matrix", "table"):
                    update += 0.01 * wanted[name]
                wanted[name] -= 0.01 * update
            step(batch, number, 0.01)
            for name, weight in step.parameters.items():
                torch.testing.assert_close(weight.detach(), wanted[name], rtol=1e-4, atol=1e-5)
    assert clipped == ({True, False} if clip else {False})


BATCH, SEQ, STEPS = 4, 24, 11


class Text:
    """Random rows, a function of the step alone."""

    batch, seq = BATCH, SEQ

    def train(self, step, rows=None, steps=1):
        batch = empty_batch(BATCH * steps, SEQ, 1, 0)
        for nth in range(steps):
            ids = np.random.default_rng(step + nth).integers(5, 100, (BATCH, SEQ))
            batch.token_ids[nth * BATCH : (nth + 1) * BATCH] = ids
        batch.lengths[:] = SEQ
        batch.example_ids[:] = np.arange(BATCH * steps) + step * BATCH
        own = np.arange(BATCH * steps).reshape(steps, BATCH)[:, rows or slice(None)].reshape(-1)
        return RawBatch(*(part[own] for part in vars(batch).values()))


def vocab():
    none = torch.zeros(100, dtype=torch.bool)
    return VocabTensors(100, 0, 2, 3, 4, ~none, none, torch.linspace(0, 1, 100), torch.ones(100))


def flat(value):
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):  # what each term asks, by its name
        value = [each for _, each in sorted(value.items())]
    return [tensor for part in value or () for tensor in flat(part)]


@pytest.mark.parametrize("batches_at_once", [1, 3, 100])
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rows", [None, slice(0, 2), slice(1, 4)])
def test_batches_are_the_same_however_many_at_once(tiny, batches_at_once, first, rows, monkeypatch):
    corrupt = corruption(tiny(batch=BATCH).stages[0], vocab(), 1, 2)
    alone = [
        Batch(inputs, [corrupt(part, len(part.lengths))[0][0] for part in split(inputs, 2)])
        for inputs in (to_inputs(Text().train(step, rows), CPU) for step in range(first, STEPS))
    ]

    def at_once(tokens, _):
        return max(1, batches_at_once * BATCH * SEQ // tokens)

    for module in (feed, micro_batches):
        monkeypatch.setattr(module, "batches_at_once", at_once)
    with text_feed(Text(), first, STEPS, CPU, corrupt, rows) as batches:
        for expected in alone:
            found = batches.take()
            assert len(found.micro_batches) == len(expected.micro_batches)
            for a, b in zip(flat(found), flat(expected), strict=True):
                assert torch.equal(a, b)


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "step.md").read_text()
ROWS = re.findall(r"^\| `([\w.]+)` \| `([\w/]+\.py)` \|", PAGE, re.MULTILINE)
ELSEWHERE = {"StageData.train", "Teaching.__call__"}
"""Runs in another thread; and with a teacher alone."""
RULES = {
    "adamw(clip=0.001)": {"clip_tensors", "clip", "ForeachRule.update", "MuonRule.update"},
    "lamb(clip=0.001, clip_per=tensor)": {"guard", "AdamRule.update", "MuonRule.update"},
    # It calls that of others after its own.
    "muon(clip=0.001)": {"clip_tensors", "guard", "ForeachRule.update", "AdamRule.update"},
}
"""Functions that a run with an update rule does not call."""


def calls(run):
    """The functions of the package that a run calls, with their files, in order."""
    called = []

    def note(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and "/bertc/" in file:
            name = frame.f_code.co_qualname.partition(".<locals>")[0]
            called.append((name, file.rpartition("/bertc/")[2]))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("rule", RULES)
def test_functions_run_in_the_order_of_the_page(rule, tiny, go):
    spec = "layers=1 batch=64 steps=1 objective=rtd*50+mlm generator=0.5 average=ema(1)"
    rows = [row for row in ROWS if row[0] not in ELSEWHERE | RULES[rule]]
    called = calls(lambda: go(tiny(spec, optimizer=rule)))
    left = iter(called)
    for row in rows:
        assert row in called, f"{row} is not called"
        assert row in left, f"{row} is called earlier than the page says"


def test_files_and_functions_that_the_page_names_are_there():
    text = PAGE.partition("## One step")[0]
    files = [file for file in re.findall(r"`([\w/]+\.py)`", text) if not file.startswith("tests")]
    assert len(files) == len({*files}) <= 25
    assert [file for file in files if not (ROOT / "bertc" / file).is_file()] == []
    assert len(ROWS) > 25
    for name, file in ROWS:
        text = (ROOT / "bertc" / file).read_text()
        *kind, function = name.split(".")
        assert all(f"class {each}" in text for each in kind)
        assert f"def {function}(" in text, (name, file)
