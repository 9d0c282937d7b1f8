"""``bertc bench``, ``--latency`` too: what it reports and refuses. No clock is trusted here."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import DataError, UsageError
from bertc.ir.program.resolved import model_weights
from bertc.lab.bench.cases import Case, Latencies, Setup, read_choices, row_of
from bertc.lab.bench.contender import Contender, Step, bertc, warm_up_torch
from bertc.lab.bench.latency import latencies, of_folder, of_spec
from bertc.lab.bench.measure import quartiles
from bertc.lab.bench.run import IGNORED, bench, model_of, transformers
from bertc.lab.results.runs import read_run
from bertc.machine.machine import MATMUL, SUMS
from bertc.run.stepper import Stepper
from tests.bench.gpu import agreement, memory, truth
from tests.bench.gpu.setting import CUT, Results, Setting, read, table, untrue
from tests.lab.onnx.conftest import run_of

TOY = "layers=2 hidden=32 heads=2 seq=16 batch=4 microbatch=2 vocab=wordpiece(200) steps=10 "
TOY += "compile=off device=cpu precision=fp32 "


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(MATMUL, "cpu", (64, 1))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("forked")
def test_a_report_is_a_table_and_json():
    report = bench(resolve(TOY), against="transformers", rounds=2)
    table = report.summary()
    for part in ("bertc fp32", "transformers fp32", "random tokens", "memory +: by how much the"):
        assert part in table
    head, *lines = (line for line in table.splitlines() if "x first" in line or "fp32 " in line)
    assert {len(line) for line in lines} == {len(head)}

    found = json.loads(report.as_json())
    assert found["command"][0] == "bertc"
    assert found["fingerprint"] == resolve(TOY).fingerprint()
    assert found["versions"].keys() == {"python", "bertc", "torch", "transformers", "numpy"}
    assert found["device"]["kind"] == "cpu"
    assert found["device"]["matmul_flops_per_second"] > 0
    assert (found["rounds"], found["step"]["microbatch"]) == (2, 2)
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


def test_systems_that_are_not_there():
    with pytest.raises(UsageError, match="cannot bench against fairseq") as unknown:
        bench(resolve(TOY), against="fairseq")
    assert "transformers" in unknown.value.help


@pytest.mark.parametrize(("settings", "obstacle"), [
    ("norm=pre", "norm=pre"), ("pack=true", "pack=true"), ("share=ffn", "share=ffn"),
    ("objective=mlm(unit=span)+sbo", "objective=mlm.sbo"),
    ("objective=rtd(over=masked)+mlm generator=0.5", "objective=rtd"),
])  # fmt: skip
def test_a_spec_that_transformers_cannot_say(settings, obstacle):
    with pytest.raises(DataError, match=f"{obstacle} stands in the way"):
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

    def step() -> float:
        seen.append((len(SUMS.keys() & os.environ.keys()), torch.get_deterministic_debug_mode()))
        return 0.0

    @contextmanager
    def small() -> Iterator[Step]:
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
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", noted := Mock())
    resolved = resolve(f"{TOY} optimizer=adamw(clip=0.25, clip_per={per})")
    (contender,) = transformers(Stepper(resolved), compiled=False)
    with contender.open() as step:
        step()
    clipped = [len(list(parameters)) for (parameters, _), _ in noted.call_args_list]
    assert {clip for (_, clip), _ in noted.call_args_list} == {0.25}
    assert (set(clipped) == {1}) == (per == "tensor")
    assert sum(clipped) > 30


def test_quartiles():
    assert quartiles([3.0]) == (3.0, 3.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)


SMALL = "layers=2 hidden=32 heads=2 seq=16 vocab=wordpiece(97) device=cpu "


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("specs", "lengths", "ways"), [
    ([SMALL], (4, 8), [("torch", "fp32"), ("torch", "bf16")]),
    ([], (4,), [("torch", "fp32"), ("onnx", "fp32"), ("onnx", "int8")]),
])  # fmt: skip
def test_runs_specs_and_runtimes_stand_side_by_side(specs, lengths, ways, tmp_path, call):
    run = run_of(tmp_path / "run", f"{SMALL.replace('layers=2', 'layers=1')} objective=mlm")
    runtimes, precisions = (",".join(dict.fromkeys(names)) for names in zip(*ways, strict=True))
    setups = ["--runtime", runtimes, "--precision", precisions, "--threads", "1", "--batch", "2"]
    shapes = ["--length", ",".join(map(str, lengths)), "--seconds", "0.1", "--json"]
    found = json.loads(call("bench", "--latency", str(run), *specs, *setups, *shapes)[1])
    cases = [(row["length"], row["runtime"], row["precision"]) for row in found["rows"]]
    assert cases == [(length, *way) for length in lengths for _ in (run, *specs) for way in ways]
    for row in found["rows"]:
        assert row["seconds_per_text"] > 0
        assert row["seconds_per_text_p95"] >= row["seconds_per_text"]
        assert row["runs"] >= 1
        assert row["score"] is None
    assert ("random weights: layers=2 hidden=32" in found["notes"][-1]) == bool(specs)


TIMES = [0.006, *[0.004] * 4]


@pytest.fixture
def unmeasured(monkeypatch):
    """Figures without a clock."""

    def measure(subjects, choices, seconds):
        cases = choices.cases([subject.name for subject in subjects])
        return {case: TIMES for case in cases}

    monkeypatch.setattr("bertc.lab.bench.latency.measure", measure)


@pytest.mark.usefixtures("unmeasured")
def test_scores_are_of_the_weights_that_are_timed(tmp_path):
    """Not of a better evaluation before them, nor of a graph in int8, which nobody evaluated."""
    run = run_of(tmp_path / "run", SMALL)
    (run / "lock.json").write_text("{}")
    stage = resolve(SMALL).stages[0].name
    lines = [
        {"kind": "eval", "step": step, "stage": stage, "loss": loss, "losses": {"mlm": loss}}
        for step, loss in ((3, 1.0), (6, 2.0))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    held_out = ("held-out loss, all predicted", 2.0)
    for step, score in ((6, held_out), (9, None)):
        (run / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
        assert read_run(run).score == score
    (run / "checkpoints" / "step-00000009").rmdir()
    for way, score in ((("torch", "fp32"), held_out), (("onnx", "int8"), None)):
        subjects = [of_spec(resolve(SMALL)), of_folder(run)]
        (_, of_run) = latencies(subjects, read_choices(*way, "1", "1", "8"), seconds=1).rows
        assert of_run["score"] == (score and dict(zip(("name", "value"), score, strict=True)))


def test_the_table_has_no_empty_columns():
    setup = Setup("it", "torch", "fp32", 1)
    row = row_of(Case(setup, 2, 8), TIMES, None)
    head, line, *_ = Latencies((row,), ()).as_table().splitlines()
    assert "score" not in head
    assert line.split() == ["it", "torch", "fp32", "1", "8", "2", "2", "3", "500"]


@pytest.mark.parametrize(("options", "message"), [
    (("torch", "int8", "1", "1", "8"), "torch does not run int8 here"),
    (("onnx", "bf16", "1", "1", "8"), "onnx does not run bf16 here"),
    (("tensorrt", "fp32", "1", "1", "8"), "--runtime tensorrt: unknown"),
    (("torch", "fp32", "no", "1", "8"), "--threads no: a number from 1"),
    (("torch", "fp32", "1", "1,", "8"), "--batch '1,': values separated by commas"),
])  # fmt: skip
def test_what_cannot_be_run_is_refused(options, message):
    pytest.raises(UsageError, read_choices, *options).match(message)


def test_rows_longer_than_positions_and_networks_that_no_graph_can_say_are_refused():
    spec = of_spec(resolve(SMALL))
    with pytest.raises(UsageError, match="at most 16 tokens, not 32") as error:
        latencies([spec], read_choices("torch", "fp32", "1", "1", "8,32"), seconds=1)
    assert error.value.help == "--length 8"
    with pytest.raises(UsageError, match="one name"):
        latencies([spec, spec], read_choices("torch", "fp32", "1", "1", "8"), seconds=1)
    spec = of_spec(resolve(f"{SMALL} attention=relative"))
    with pytest.raises(DataError, match="attention=relative"):
        latencies([spec], read_choices("onnx", "fp32", "1", "1", "8"), seconds=1)


@pytest.mark.usefixtures("unmeasured")
def test_specs_given_as_texts_are_named_by_them():
    texts = [SMALL, SMALL.replace("layers=2", "layers=4")]
    subjects = [of_spec(resolve(text), text) for text in texts]
    found = latencies(subjects, read_choices("torch", "fp32", "1", "1", "8"), seconds=1)
    assert [row["name"] for row in found.rows] == texts


PARTS = {"truth": truth, "agreement": agreement, "memory": memory}


@pytest.mark.filterwarnings("ignore")  # The compiler's and the profiler's own.
@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_through(part, tmp_path, monkeypatch):
    # By hand it is Inductor, whose kernels tests/run/test_compiled.py holds.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    PARTS[part].run(Setting(torch.device("cpu"), tiny=True), Results(part, tmp_path))
    found = read(tmp_path, part)
    assert len(found) > 1
    assert untrue(found) == []
    assert part in table(tmp_path, (part,))


def test_what_was_measured_stays_where_a_part_breaks_off(tmp_path):
    results = Results("truth", tmp_path)
    results.check("one", True, share=0.1)
    results.check("two", False)
    results.measure("three", lambda: {}["no kernel"])
    results.put(CUT, seconds=570)
    found = read(tmp_path, "truth")
    assert found["one"] == {"ok": True, "share": 0.1}
    assert untrue(found) == ["two", "three"]
    assert list(found) == ["one", "two", "three", "cut"]
    again = Results("truth", tmp_path)  # goes on
    again.measure("one", lambda: again.put("one", a=1))
    again.measure("four", lambda: again.put("four", a=1))
    assert list(read(tmp_path, "truth")) == ["one", "two", "three", "four"]
    assert "share" in read(tmp_path, "truth")["one"]
    assert "one" not in Results("truth", tmp_path).found  # begins anew
