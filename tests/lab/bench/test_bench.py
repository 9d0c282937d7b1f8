"""``bertc bench``: what it reports and what it refuses. No clock is trusted here."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.ir.program.model import model_weights
from bertc.lab.bench.baseline import IGNORED, model_of, transformers
from bertc.lab.bench.contender import Contender, Step, bertc, warm_up_torch
from bertc.lab.bench.measure import quartiles
from bertc.lab.bench.run import bench
from bertc.machine.machine import SUMS
from bertc.run.stepper import Stepper

TOY = "layers=2 hidden=32 heads=2 seq=16 batch=4 microbatch=2 vocab=wordpiece(200) steps=10 "
TOY += "compile=off device=cpu precision=fp32 "


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("forked")
def test_the_command_prints_a_table_and_keeps_json(command, capsys, tmp_path):
    kept = tmp_path / "toy.json"
    arguments = ["bench", TOY, "--rounds", "2", "--against", "transformers", "--out", str(kept)]
    assert command(*arguments) == 0
    table = capsys.readouterr().out
    assert "bertc fp32" in table
    assert "transformers fp32" in table
    assert "random tokens" in table
    assert "memory +: by how much the process grew" in table

    found = json.loads(kept.read_text())
    assert found["command"] == ["bertc", *arguments]
    assert found["fingerprint"] == resolve(TOY).fingerprint()
    assert found["versions"].keys() == {"python", "bertc", "torch", "transformers", "numpy"}
    assert found["device"]["kind"] == "cpu"
    assert found["device"]["matmul_flops_per_second"] > 0
    assert found["rounds"] == 2
    assert found["step"]["microbatch"] == 2
    assert found["step"]["useful_flops"] > 0
    assert found["estimate"]["peak_bytes"] > 0
    own, other = found["contenders"]
    assert own["ratio"] == 1
    assert found["best_other"] == other["name"] == "transformers fp32"
    assert found["ratio_to_best_other"] == other["ratio"]
    for contender in (own, other):
        assert len(contender["seconds"]["all"]) == 2
        assert contender["tokens_per_second"] > 0
        assert contender["matmul_share"] > 0
        assert contender["mfu"] is None, "a CPU has no data sheet"
        assert contender["first_step_seconds"] > 0
        assert 0 <= contender["data_wait_share"] < 1
        assert contender["graphs"] == contender["graph_breaks"] == contender["recompiles"] == 0


@pytest.mark.usefixtures("forked")
def test_two_specs_are_timed_in_turns_each_as_itself(call):
    specs = (TOY, TOY.replace("seq=16", "seq=32") + "norm=pre")
    code, out, err = call("bench", *specs, "--rounds", "1", "--json")
    assert code == 0, err
    timed = json.loads(out)["contenders"]
    assert [one["name"] for one in timed] == ["bertc fp32 (1)", "bertc fp32 (2)"]
    assert [one["fingerprint"] for one in timed] == [resolve(s).fingerprint() for s in specs]
    tokens = [one["tokens_per_second"] * one["seconds"]["median"] for one in timed]
    assert tokens == pytest.approx([4 * 16, 4 * 32])
    with pytest.raises(UsageError, match="next to one spec"):
        bench(*map(resolve, specs), against="transformers")


def test_systems_that_are_not_there(monkeypatch):
    with pytest.raises(UsageError, match="cannot bench against fairseq") as unknown:
        bench(resolve(TOY), against="fairseq")
    assert "transformers" in unknown.value.help
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingInputError, match="not installed") as refused:
        bench(resolve(TOY), against="transformers")
    assert "pip install transformers" in refused.value.help


@pytest.mark.parametrize(
    ("settings", "obstacle"),
    [
        ("norm=pre", "norm=pre stands in the way"),
        ("pack=true", "pack=true stands in the way"),
        ("share=attention", "share=attention stands in the way"),
        ("objective=mlm(unit=span)+sbo", "objective=mlm.sbo stands in the way"),
        ("objective=rtd(over=masked)+mlm generator=0.5", "objective=rtd stands in the way"),
    ],
)
def test_a_spec_that_transformers_cannot_say(settings, obstacle):
    with pytest.raises(DataError, match=obstacle):
        bench(resolve(TOY + settings), against="transformers")


SYSTEMS = {
    "bert": "objective=mlm+nsp",
    "one question less": "objective=mlm",
    "albert": "objective=mlm+sop embedding=16 share=all",
    "roberta": "objective=mlm positions=learned(18, offset=2) pooler=true",
    "electra": "objective=rtd*50+mlm generator=0.5 embedding=16 activation=gelu-tanh",
    "electra, tables": "objective=rtd*50+mlm generator=network(0.5, tie=tokens) embedding=16",
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_other_side_is_the_same_model_on_the_same_batch(name):
    resolved = resolve(TOY + SYSTEMS[name])
    stepper = Stepper(resolved)
    first, second = stepper.counterpart().batch
    assert first["input_ids"].shape == second["input_ids"].shape == (2, 16)
    predicted = first["labels"] != IGNORED
    assert (predicted.sum(1) == 2).all()
    assert not torch.equal(first["input_ids"], second["input_ids"])
    assert (first["input_ids"][~predicted] != 4).all(), "a [MASK] that nobody asks about"
    model = model_of(stepper)
    read = [w for w in model_weights(resolved) if name != "roberta" or "pooler" not in w.name]
    assert sum(p.numel() for p in model.parameters()) == sum(w.numel for w in read)
    assert torch.isfinite(model(**first).loss)


def test_tokens_replaced_at_random_are_labelled_on_the_other_side():
    stepper = Stepper(resolve(TOY + "objective=rtd generator=random"))
    first, _ = stepper.counterpart().batch
    assert first["labels"].sum() > 0
    assert torch.isfinite(model_of(stepper)(**first).loss)


def test_the_other_side_has_nothing_of_our_settings(monkeypatch):
    """Libraries read them when they are first used: as the first step of its process is taken."""
    seen: list[tuple[int, int]] = []

    @contextmanager
    def small() -> Iterator[Step]:
        def step() -> float:
            seen.append(
                (len(SUMS.keys() & os.environ.keys()), torch.get_deterministic_debug_mode())
            )
            return 0.0

        yield step

    stepper = Stepper(resolve(TOY))
    others, own = transformers(stepper, compiled=True), bertc(stepper, "bertc")
    one = Contender("small", "fp32", False, small, nullcontext, stepper)
    monkeypatch.setattr("bertc.run.stepper.Stepper.small", lambda *_: one)
    for name in SUMS:
        monkeypatch.delenv(name, raising=False)
    for each in (own, *others):
        warm_up_torch(torch.device("cpu"), each)
    assert seen == [(len(SUMS), 2)] + [(0, 0)] * len(others)
    assert "attention_mask" not in stepper.counterpart().batch[0]


def test_forms_of_the_other_side():
    for precision, device, forms in (
        ("bf16", "cpu", ["fp32", "bf16", "bf16, compiled"]),
        ("fp32", "cpu", ["fp32", "fp32, compiled"]),
        ("bf16", "cuda", ["bf16", "bf16, compiled"]),
    ):
        stepper = Stepper(resolve(TOY, [f"precision={precision}"]))
        stepper.plan = replace(stepper.plan, device=device)
        names = [contender.name for contender in transformers(stepper, compiled=True)]
        assert names == [f"transformers {form}" for form in forms]


@pytest.mark.parametrize("per", ["model", "tensor"])
def test_the_other_side_clips_as_the_spec_says(per, monkeypatch):
    clipped: list[int] = []

    def noted(parameters: list[torch.Tensor], clip: float) -> None:
        assert clip == 0.25
        clipped.append(len(list(parameters)))

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", noted)
    resolved = resolve(f"{TOY} optimizer=adamw(clip=0.25, clip_per={per})")
    (contender,) = transformers(Stepper(resolved), compiled=False)
    with contender.open() as step:
        step()
    assert (set(clipped) == {1}) == (per == "tensor")
    assert sum(clipped) > 30


def test_quartiles():
    assert quartiles([3.0]) == (3.0, 3.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)
