"""``average``: means of weights equal their closed forms, and stand where they are to be used."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import resolve
from bertc.base.diagnostics import DataError
from bertc.cost import as_json, estimate
from bertc.ir.learning.optimizer import Adam, ConstantRate
from bertc.ir.methods.average import Ema
from bertc.ir.methods.pruning import Neurons
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import read_checkpoint, read_model
from bertc.run.train.loop import train
from tests.run.conftest import lines, same_run

STAGES: dict[str, dict[str, object]] = {
    "moving": {"steps": 6, "layers": 1, "average": Ema(half_life=1.5 / 6)},
    "longer": {"steps": 4, "average": Ema(half_life=4)},
    "plain": {"steps": 1},
}
FAST = Adam(lr=1e-2, warmup=0, schedule=ConstantRate())


def made(tiny: Any) -> Any:
    return tiny(stages=STAGES, optimizer=FAST, save_every=1, keep="all", eval_every=1)


@pytest.fixture(scope="module")
def run(tiny: Any, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an average in two of three stages, a checkpoint a step."""
    found = tmp_path_factory.mktemp("average") / "run"
    train(made(tiny), found, cache=cache, quiet=True)
    return found


def tensors(run: Path, step: int, name: str = "weights") -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / f"{name}.safetensors")


def averaged_steps(run: Path) -> list[int]:
    found = (run / "checkpoints").glob("*/average.safetensors")
    return sorted(int(path.parent.name[5:]) for path in found)


def test_averages_equal_their_closed_forms(run):
    """In fp64; with a half-life of h, weights count 2^(-1/h) of those a step later."""
    assert averaged_steps(run) == [*range(1, 11)]
    for first, end, half_life in ((1, 6, 2), (7, 10, 4)):  # 1.5 steps are 2
        keep = 0.5 ** (1 / half_life)
        for name, last in tensors(run, end, "average").items():
            after = {step: tensors(run, step)[name].double() for step in range(first, end + 1)}
            wanted = keep ** (end - first) * after.pop(first)
            wanted += sum((1 - keep) * keep ** (end - step) * of for step, of in after.items())
            assert torch.allclose(last.double(), wanted, rtol=0, atol=1e-6), name


def stood_at(run: Path, step: int, name: str = "at") -> Path:
    """The run as it was after a step."""
    copy = run.with_name(f"{name}-{step}")
    if not copy.exists():
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("checkpoints", "model", "*.png"))
        name = f"step-{step:08d}"
        shutil.copytree(run / "checkpoints" / name, copy / "checkpoints" / name)
    return copy


def test_the_average_is_what_is_evaluated_and_loaded(run, cache):
    shown = {line["step"]: line["losses"] for line in lines(run, "eval")}
    for step, kind in ((6, "average"), (9, "average"), (11, "weights")):
        read = read_model(stood_at(run, step))[1]
        assert all(torch.equal(read[n], t) for n, t in tensors(run, step, kind).items())
        again = evaluate_run(stood_at(run, step), cache=cache, quiet=True)
        assert again.evaluation.losses == pytest.approx(shown[step], rel=1e-6)
        assert any("of the average" in note for note in again.notes) == (kind == "average")
    raw = read_checkpoint(run, 6, raw=True)[1]
    assert all(torch.equal(raw[name], weight) for name, weight in tensors(run, 6).items())


@pytest.mark.parametrize("step", [6, 8])
def test_resumed_at_any_step_it_is_the_same(run, tiny, cache, step):
    resumed = stood_at(run, step, "resumed")
    train(made(tiny), resumed, cache=cache, quiet=True, resume=True)
    same_run(run, resumed)


@pytest.mark.parametrize(("settings", "kind"), [({"layers": 2}, "average"), ({}, "weights")])
def test_a_stage_begins_anew_with_the_average_and_goes_on_with_the_weights(
    tiny, go, tmp_path, run, settings, kind
):
    """Its rate is too small to move a weight; those of the stage before are no average's."""
    first = {**STAGES["moving"], "average": Ema(half_life=3), "optimizer": FAST}
    still = {"layers": 1, "steps": 1, "optimizer": Adam(lr=1e-30, warmup=0)}
    stages = {"moving": first, "next": {**still, **settings}}
    resolved = tiny(stages=stages, save_every=6, keep="all", eval_every=9)
    go(resolved, kind)
    before, after = tensors(tmp_path / kind, 6, kind), tensors(tmp_path / kind, 7)
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert averaged_steps(tmp_path / kind) == [6]
    raw = tensors(tmp_path / kind, 6)
    assert all(torch.equal(raw[name], weight) for name, weight in tensors(run, 6).items())


def test_what_is_pruned_is_gone_of_the_average_too(tiny, go, tmp_path, cache):
    prune = Neurons(share=0.5, every=0.25, examples=8)
    resolved = tiny(prune=prune, average=Ema(half_life=3), steps=6, save_every=6)
    report = go(resolved, "pruned")
    again = evaluate_run(tmp_path / "pruned", cache=cache, quiet=True)
    assert again.evaluation.loss == pytest.approx(report.evaluation.loss, rel=1e-5)
    assert "parameters are left" in report.notes[0]


def test_an_average_takes_what_the_estimate_says(run, tiny):
    with_it, without = estimate(tiny(average=Ema(half_life=2))), estimate(tiny())
    held = sum(mean.nbytes for mean in tensors(run, 10, "average").values())
    assert with_it.memory.average_bytes == held
    assert with_it.memory.peak_bytes - without.memory.peak_bytes == held
    assert "averages, of it" in str(with_it)
    assert "average" not in as_json([without])


def test_the_pass_over_an_average_takes_time():
    """Weights and averages are read, averages written, after every step."""
    specs = ("average=none", "average=ema(200)")
    none, each = (estimate(resolve("bert-base", [spec]), "a100") for spec in specs)
    passes = each.time.seconds_total - none.time.seconds_total
    seconds = 12 * none.parameters.total / 1.6e12
    assert passes == pytest.approx(1_000_000 * seconds, rel=0.05)


def test_a_run_with_another_average_is_refused_by_name(run):
    file = stood_at(run, 6, "other") / "resolved.json"
    content = json.loads(file.read_text())
    content["stages"][0]["average"]["kind"] = "checkpoints"
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"average is missing or unknown"):
        read_model(file.parent)
