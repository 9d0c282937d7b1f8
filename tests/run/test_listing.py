"""``bertc runs``: what each run of a folder is doing, scored and cost, as folders show it."""

import json
import platform
import shutil

import pytest
from typer.testing import CliRunner

from bertc import estimate, resolve
from bertc.base.diagnostics import DataError, SpecError, StoppedError, UsageError
from bertc.cli.app import app
from bertc.ir.learning.objective import Mlm, Sop, Term
from bertc.ir.program.model import model_weights
from bertc.lab.results import state as module
from bertc.lab.results.curves import curves
from bertc.lab.results.listing import list_runs
from bertc.run.records.folder import RunFolder
from bertc.run.records.lines import Attempt
from bertc.run.train.loop import train
from tests.run.conftest import leave_run


def line(step, loss):
    return {"kind": "eval", "step": step, "stage": "main", "loss": loss, "losses": {"mlm": loss},
            "tokens": step, "seconds": float(step)}  # fmt: skip


@pytest.fixture
def run(tiny, tmp_path):
    """Leave a run with these held-out losses by step."""

    def make(name, losses, finished=False, host="", **settings):
        resolved, lines = tiny(**settings), (line(*each) for each in losses.items())
        step = resolved.steps if finished else 0
        folder = leave_run(tmp_path / "runs" / name, resolved, lines, step, finished)
        attempt = Attempt(0, 0.0, host or platform.node(), "cpu", 1)
        (folder / "attempts.jsonl").write_text(json.dumps(vars(attempt)) + "\n")
        return folder

    return make


def names(listing):
    return [run.folder.name for run in listing.runs]


def test_runs_have_a_state_a_score_and_a_cost(run, tiny, tmp_path):
    run("done", {6: 4.0, 12: 4.5}, finished=True)
    stopped = run("stopped", {6: 3.0}, hidden=64)
    failed = run("failed", {}, layers=1)
    with pytest.raises(DataError), RunFolder(failed).noting_failure():
        raise DataError("the loss is not finite")
    with pytest.raises(StoppedError), RunFolder(stopped).noting_failure():
        raise StoppedError("stopped")
    (run("damaged", {}) / "metrics.jsonl").write_text("{}\n")
    with RunFolder(run("going", {3: 5.0})).claimed():
        found = list_runs([tmp_path / "runs"], order="score")
    assert names(found) == ["stopped", "done", "going", "failed"]
    standing = {each.folder.name: each.standing for each in found.runs}
    assert standing == {
        "done": "finished", "stopped": "stopped at 6 of 12", "failed": "failed at 0 of 12",
        "going": "training 3 of 12",
    }  # fmt: skip
    done = found.runs[1]
    assert (done.last, done.best, done.seconds) == (4.5, 4.0, 12.0)
    assert done.parameters == sum(weight.numel for weight in model_weights(tiny()))
    assert [*found.damaged] == [tmp_path / "runs" / "damaged"]
    assert "not listed: " in found.as_table()
    printed = json.loads(found.as_json())["runs"]
    assert [each["state"] for each in printed] == ["stopped", "finished", "training", "failed"]


def test_python_has_the_runs_as_rows_tables_and_html(run, tmp_path):
    run("<b>", {6: 4.0}, hidden=64, seed=3)
    run("two", {})
    (run("damaged", {}) / "metrics.jsonl").write_text("{}\n")
    listed = list_runs([tmp_path / "runs"], order="name")
    assert names(listed) == ["<b>", "two"]
    assert [each.last for each in listed.runs] == [4.0, None]
    html = listed._repr_html_()
    assert "&lt;b&gt;" in html
    assert "not listed: " in html
    assert "<b>/" not in html
    rows = listed.rows()
    assert {"folder", "state", "last", "flops", "when", "hidden", "seed"} <= {*rows[0]}
    assert "dropout" not in rows[0], "it is the same in all"
    assert [row["hidden"] for row in rows] == ["64", "32"]


def test_conditions_choose_runs_by_facts_and_settings(run, tmp_path):
    run("one", {}, hidden=64, seed=3)
    run("two", {}, stages={"a": {"seq": 16, "steps": 6}, "b": {"seq": 24, "steps": 6}})
    folder = tmp_path / "runs"
    for where, expected in (
        (["hidden=64"], ["one"]),
        (["H={32, 64}"], ["one", "two"]),
        (["seq=16"], ["two"]),
        (["seed=3", "state=stopped"], ["one"]),
        (["state=finished"], []),
        (["folder=*two"], ["two"]),
        (["name=o?e"], ["one"]),  # of its folder
    ):
        assert names(list_runs([folder], where, "name")) == expected
    assert "none of 2 runs is such" in list_runs([folder], ["state=failed"]).as_table()
    with pytest.raises(SpecError) as wrong:
        list_runs([folder], ["hiden=64"])
    assert str(wrong.value.diagnostics[0].span) == "--where:1:1"
    for where, error in (
        (["hidden"], UsageError),
        (["state=done"], UsageError),
        (["stat=stopped"], SpecError),
        (["hiden=64"], SpecError),
    ):
        with pytest.raises(error):
            list_runs([folder], where)
    with pytest.raises(UsageError, match="no runs are sorted by 'date'"):
        list_runs([folder], order="date")


def test_a_run_on_another_machine_trains_while_it_writes(run, monkeypatch):
    folder = RunFolder(run("far", {3: 5.0}, host="another"))
    assert module.state_of(folder, folder.read_resolved()) == "training"
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.0)
    assert module.state_of(folder, folder.read_resolved()) == "stopped"


def test_the_command_shows_names_as_text(run, tmp_path):
    run("\x1b[31mred\u202e[bold]", {})
    shown = CliRunner().invoke(app, ["runs", str(tmp_path / "runs")]).output
    assert "\\x1b[31mred\\u202e[bold]" in shown


def test_curves_and_attempts_of_a_run_with_stages_that_was_resumed(tiny, tmp_path, cache):
    program = tiny(
        objective=(Term(objective=Mlm()), Term(objective=Sop(), weight=0.5)),
        stages={"one": {"steps": 6}, "two": {"steps": 6, "seq": 16}},
    )
    folder = tmp_path / "run"
    train(program, folder, cache=cache, quiet=True)
    shutil.rmtree(folder / "checkpoints" / "step-00000012")
    with open(folder / "attempts.jsonl", "a") as file:
        file.write('{"step": 0, "ti')
    train(program, folder, cache=cache, quiet=True, resume=True)

    found, tried = curves(folder), RunFolder(folder).read_attempts()
    assert [attempt.step for attempt in tried] == [0, 8]
    assert tried[0].time < tried[1].time
    steps, losses = found.of("train/loss", "step")
    assert steps == [3, 6, 9, 12]
    flops, same = found.of("train/loss", "flops")
    assert same == losses
    # The update's are not counted.
    assert flops[3] == pytest.approx(estimate(program).flops.train_total, rel=0.01)
    assert flops[1] - flops[0] > 1.2 * (flops[3] - flops[2])  # of longer rows
    assert {"train/loss/sop", "train/tokens_per_second", "eval/accuracy/mlm"} <= {*found.names}
    assert found.points[-1].stage == "two"


def test_flops_of_a_task_are_of_rows_as_long_as_those_that_were_read(tmp_path, go):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hen", "pond"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    rows = "hen hen pond\tpond hen\ta\npond hen\then pond pond\tb\n" * 8  # of 8 tokens
    (tmp_path / "train.tsv").write_text("text\tpair\tlabel\n" + rows)
    spec = (
        f"vocab='{tmp_path}/vocab.txt' layers=2 hidden=32 heads=2 batch=4 seq=64 log_every=3 "
        f"steps=6 task=classify('{tmp_path}/train.tsv', pair=pair)"
    )
    printed = estimate(spec)
    assert printed.stages[0].row_tokens == 8
    go(resolve(spec))
    flops, _ = curves(tmp_path / "run").of("train/loss", "flops")
    assert flops[1] == 2 * flops[0] == pytest.approx(printed.flops.train_total, rel=0.05)
    (listed,) = list_runs([tmp_path]).runs
    assert listed.flops == flops[1]


def test_a_damaged_line_of_attempts_is_named(tmp_path):
    (tmp_path / "attempts.jsonl").write_text('{"step": 0}\n')
    with pytest.raises(DataError, match=r"attempts.jsonl:1 is damaged"):
        RunFolder(tmp_path).read_attempts()


def test_a_run_is_in_use_while_it_is_claimed(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert not folder.in_use
    with folder.claimed():
        assert folder.in_use
    assert not folder.in_use
