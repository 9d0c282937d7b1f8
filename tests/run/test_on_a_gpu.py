"""The step as a GPU would be given it: what it launches, where it waits, what it holds.
``python -m tests.run.test_on_a_gpu`` writes the launches anew, for a person to read the diff.
"""

import json
from pathlib import Path

import pytest
import torch

from bertc.api import resolve
from bertc.cost import estimate
from bertc.cost.planning.plan import Plan
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.engines import gathered
from bertc.learn.step.feed import to_inputs
from bertc.model import Model
from bertc.run.beginning.synthetic import RandomText, first_step
from bertc.run.evaluation import task_inference
from bertc.run.evaluation.task_inference import answer
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import TaskSet
from bertc.tasks.layouts.example import TextExample
from tests.kinds import OBJECTIVES
from tests.pretended import CUDA, META, Gpu
from tests.text.test_encode import bert_vocabulary, word_tokenizer

GOLDEN = Path(__file__).with_name("launches.json")
TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 precision=bf16 compile=off"
STEPS = {
    **OBJECTIVES,
    "micro-batches": "objective=mlm microbatch=2",
    "recomputed": "objective=mlm recompute=on",
    "lamb": "objective=mlm optimizer=lamb",
    "rates by layer": "objective=mlm optimizer=adamw(layer_decay=0.8)",
    "one text alone": "objective=mlm format=sentence-pair pack=true dropout=0",
    "rare tokens": "objective=clm table=adaptive([100, 200])",
}
MORE_WAITS = {"rare tokens": 2}  # how many states the clusters judge the text says
ALL_COPIES = {
    "lamb": {"to the device": 1},
    # In the first step alone: the rows of each direction.
    "two directions": {"to the device, waited for": 2},
}
# As guesses are put there.
ALL_SORTS = dict.fromkeys(("rtd, drawn", "rtd, by tag", "restore, all"), ["scatter_"])


Seen = tuple[int, list[str], Gpu]


def run(resolved: Resolved, steps: int = 1) -> Seen:
    """Launches and sorts of the corruption, and what was seen of it and of the steps."""
    stage, precision = resolved.stages[0], resolved.run.precision
    with Gpu() as gpu:
        with META:
            model = Model(resolved)
        for weight in model.parameters():
            gpu.hold(weight)
        model.compute_dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        rows, again = stage.microbatch or stage.batch, resolved.run.recompute == "on"
        assert precision != "auto", "a toy says what it computes in"
        step = first_step(resolved, model, Plan("cuda", precision, (rows,), (again,), False, ()))
        inputs = to_inputs(RandomText(stage, resolved.encoder.vocab_size).train(0), CUDA)
        gpu.begin()
        batch = step.read(inputs)
        corrupted, sorts = gpu.launches.total(), [*gpu.sorts.elements()]
        for number in range(steps):
            step(batch, number, 1e-4)
    return corrupted, sorts, gpu


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """Every objective's step, and every way of running one."""
    return {name: run(resolve(f"{TOY} {extra}")) for name, extra in STEPS.items()}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_waits_once_and_copies_and_sorts_nothing(name, seen):
    """Under deterministic=yes a scatter of many values is a sort and a dozen kernels."""
    _, sorts, gpu = seen[name]
    assert gpu.waits == {"tolist": MORE_WAITS.get(name, 1)}
    assert gpu.copies == ALL_COPIES.get(name, {})
    # It waits when all there is to do is on its way; LAMB has to know the norm.
    assert (gpu.before_the_wait == gpu.launches.total()) == (name != "lamb")
    assert sorts == ALL_SORTS.get(name, [])


def test_a_checkpoint_waits_once():
    with Gpu() as gpu:
        with META:
            model = Model(resolve(f"{TOY} objective=mlm"))
        gpu.begin()
        whole = gathered(dict(model.named_parameters()))
    assert {tensor.device.type for tensor in whole.values()} == {"cpu"}
    assert gpu.waits == {"synchronize": 1}
    assert gpu.copies == {"to the host": len(whole)}


def test_answers_to_a_task_wait_once_for_all_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(task_inference, "ROWS_AT_ONCE", 8)
    (tmp_path / "train.tsv").write_text("text\tlabel\nhens\tx\n")
    spec = f"{TOY} task=classify('{tmp_path}/train.tsv', labels=[x, y])"
    stage = resolve(spec, ["steps=10"]).stages[0]
    (task,), many = stage.tasks, 40
    examples = [TextExample(str(n), ("w1 w2 w3 w4 w5 w6",), "x") for n in range(many)]
    rows = encode(task, examples, bert_vocabulary(word_tokenizer()), 24, 2)
    with Gpu() as gpu:
        with META:
            model = Model(resolve(spec))
        gpu.begin()
        found = answer(model, stage, TaskSet(task, rows, {}), examples, rows, pad=0)
    assert found.given == ["x"] * many
    assert gpu.copies["to the host"] == 5
    assert gpu.waits == {"synchronize": 1, "tolist": 1}


def launches(seen: dict[str, Seen]) -> dict[str, dict[str, int]]:
    """Kernels of a step by what they are for; a list of tensors counts as one."""
    return {
        name: {"corruption": before, "step": gpu.launches.total() - before}
        for name, (before, _, gpu) in seen.items()
    }


def test_launches_are_as_many_as_they_were(seen):
    """Each costs the host some 6 us: renew the golden (above) when a change is meant."""
    assert launches(seen) == json.loads(GOLDEN.read_text())


WIDE = "layers=3 hidden=768 vocab=30522 seq=512 steps=100 compile=off"
BYTES = (
    "precision=bf16 batch=128 microbatch=128",
    "precision=bf16 batch=64 microbatch=64 dropout=0 optimizer=lamb",
    "precision=fp32 batch=64 microbatch=32 objective=mlm+sop",
    "precision=bf16 batch=64 microbatch=64 objective=clm",
    "precision=bf16 batch=32 microbatch=32 objective=plm attention=relative(untie=true)",
    "precision=bf16 batch=64 microbatch=64 E=128 generator=0.5 objective=rtd*50+mlm recompute=on",
)


@pytest.mark.parametrize("spec", BYTES)
def test_the_estimate_of_a_gpu_is_what_its_tensors_take(spec):
    resolved = resolve(f"{WIDE} {spec}")
    _, _, gpu = run(resolved, steps=2)
    share = estimate(resolved, "h200").memory.peak_bytes / gpu.peak_bytes
    # The estimate also has what kernels hold for themselves, which these tensors do not show; it
    # lacks up to 0.25 GiB around the scores of the vocabulary, so most where few layers are below.
    assert 0.92 < share < 1.05


def test_what_a_gpu_would_refuse_or_wait_for_is_noticed():
    with Gpu() as gpu:
        here, there = torch.arange(3.0), torch.arange(3.0, device=CUDA)
        assert there.device == CUDA
        assert there.is_cuda
        assert not here.is_cuda
        with pytest.raises(AssertionError, match="add of tensors on"):
            there + here
        assert there.sum()
        assert there.max().item()
        assert len(there.nonzero()) == 1
        there[there > 1] = 0
        torch.tensor([1.0, 2.0], device=CUDA)
        there.copy_(here)
        there.copy_(here, non_blocking=True)
        assert there.cpu().tolist() == [1, 1, 1]
    numbers, place = "copy of Python numbers", "index_put_"
    assert gpu.waits == {"_local_scalar_dense": 2, "nonzero": 1, place: 1, numbers: 1}
    there, here = "to the device", "to the host"
    assert gpu.copies == {f"{there}, waited for": 1, f"{here}, waited for": 1, there: 1}


if __name__ == "__main__":
    found = launches({name: run(resolve(f"{TOY} {extra}")) for name, extra in STEPS.items()})
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
