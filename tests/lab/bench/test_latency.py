"""``bertc bench --latency``: cases, tables and refusals. No clock is trusted here."""

import json

import pytest

import bertc
from bertc.base.diagnostics import DataError, UsageError
from bertc.lab.bench.cases import Case, Figures, Latencies, Row, Setup, Shape, read_choices
from bertc.lab.bench.latency import latencies, of_folder, of_spec
from bertc.lab.results.runs import read_run
from tests.lab.onnx.conftest import run_of

TOY = "layers=2 hidden=32 heads=2 seq=16 vocab=wordpiece(97) device=cpu "


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("specs", "lengths", "ways"),
    [
        ([TOY], (4, 8), [("torch", "fp32"), ("torch", "bf16")]),
        ([], (4,), [("torch", "fp32"), ("onnx", "fp32"), ("onnx", "int8")]),
    ],
)
def test_runs_specs_and_runtimes_stand_side_by_side(specs, lengths, ways, tmp_path, call):
    run = run_of(tmp_path / "run", f"{TOY.replace('layers=2', 'layers=1')} objective=mlm")
    runtimes, precisions = (",".join(dict.fromkeys(names)) for names in zip(*ways, strict=True))
    setups = ["--runtime", runtimes, "--precision", precisions, "--threads", "1", "--batch", "2"]
    shapes = ["--length", ",".join(map(str, lengths)), "--seconds", "0.1", "--json"]
    found = json.loads(call("bench", "--latency", str(run), *specs, *setups, *shapes)[1])
    assert [(row["length"], row["runtime"], row["precision"]) for row in found["rows"]] == [
        (length, *way) for length in lengths for _ in (run, *specs) for way in ways
    ]
    for row in found["rows"]:
        assert row["seconds_per_text"] > 0
        assert row["seconds_per_text_p95"] >= row["seconds_per_text"]
        assert row["runs"] >= 1
        assert row["score"] is None
    assert ("random weights: layers=2 hidden=32" in found["notes"][-1]) == bool(specs)


def row(score: tuple[str, float] | None = None) -> Row:
    setup = Setup("it", "torch", "fp32", 1)
    return Row(Case(setup, Shape(2, 8)), Figures(0.004, 0.006, runs=5), score)


@pytest.fixture
def unmeasured(monkeypatch):
    """Figures without a clock."""

    def measure(subjects, choices, seconds):
        cases = choices.cases([subject.name for subject in subjects])
        return {case: Figures(0.004, 0.006, runs=5) for case in cases}

    monkeypatch.setattr("bertc.lab.bench.latency.measure", measure)


@pytest.mark.usefixtures("unmeasured")
def test_scores_are_of_the_weights_that_are_timed(tmp_path):
    """Not of a better evaluation before them, nor of a graph in int8, which nobody evaluated."""
    run = run_of(tmp_path / "run", TOY)
    (run / "lock.json").write_text("{}")
    stage = bertc.resolve(TOY).stages[0].name
    lines = [
        {"kind": "eval", "step": step, "stage": stage, "loss": loss, "losses": {"mlm": loss}}
        for step, loss in ((3, 1.0), (6, 2.0))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def scores(runtime: str, precision: str) -> tuple[str, float] | None:
        cases = read_choices(runtime, precision, "1", "1", "8")
        (row,) = latencies([of_spec(bertc.resolve(TOY)), of_folder(run)], cases,
                           seconds=1).rows[1:]  # fmt: skip
        return row.score

    for step, score in ((6, ("held-out loss, all predicted", 2.0)), (9, None)):
        (run / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
        assert read_run(run).score == score
    (run / "checkpoints" / "step-00000009").rmdir()
    assert scores("torch", "fp32") == ("held-out loss, all predicted", 2.0)
    assert scores("onnx", "int8") is None


def test_the_table_has_no_empty_columns():
    head, line, *_ = Latencies((row(),), ()).as_table().splitlines()
    assert "score" not in head
    assert line.split() == [
        "it", "torch", "fp32", "1", "8", "2", "2", "3", "500",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("torch", "int8", "1", "1", "8"), "torch does not run int8 here"),
        (("onnx", "bf16", "1", "1", "8"), "onnx does not run bf16 here"),
        (("tensorrt", "fp32", "1", "1", "8"), "--runtime tensorrt: unknown"),
        (("torch", "fp32", "no", "1", "8"), "--threads no: a number from 1"),
        (("torch", "fp32", "1", "1,", "8"), "--batch '1,': values separated by commas"),
    ],
)
def test_what_cannot_be_run_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        read_choices(*options)


def test_rows_longer_than_positions_are_refused():
    spec = of_spec(bertc.resolve(TOY))
    with pytest.raises(UsageError, match="at most 16 tokens, not 32") as error:
        latencies([spec], read_choices("torch", "fp32", "1", "1", "8,32"), seconds=1)
    assert error.value.help == "--length 8"
    with pytest.raises(UsageError, match="one name"):
        latencies([spec, spec], read_choices("torch", "fp32", "1", "1", "8"), seconds=1)


@pytest.mark.usefixtures("unmeasured")
def test_specs_given_as_texts_are_named_by_them():
    texts = [TOY, TOY.replace("layers=2", "layers=4")]
    found = latencies(
        [of_spec(bertc.resolve(text), text) for text in texts],
        read_choices("torch", "fp32", "1", "1", "8"),
        seconds=1,
    )
    assert [row.case.setup.name for row in found.rows] == texts


def test_a_network_that_no_graph_can_say_is_named():
    spec = of_spec(bertc.resolve(f"{TOY} attention=relative"))
    with pytest.raises(DataError, match="attention=relative"):
        latencies([spec], read_choices("onnx", "fp32", "1", "1", "8"), seconds=1)
