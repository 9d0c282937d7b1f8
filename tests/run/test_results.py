"""``bertc runs``: what runs are doing, scored and cost, and their results in rows and columns."""

import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from bertc import estimate
from bertc.api import resolve
from bertc.base.diagnostics import DataError, MissingInputError, SpecError, StoppedError, UsageError
from bertc.ir.program.resolved import model_weights
from bertc.lab.results import state as module
from bertc.lab.results.compare import results
from bertc.lab.results.curves import curves
from bertc.lab.results.groups import glue_average
from bertc.lab.results.listing import list_runs
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import Attempt


def glue(*names):
    return " + ".join(f"glue({name}, 'glue/{name}', examples=100)" for name in names)


@pytest.fixture
def run(tiny, tmp_path):
    """Leave a run with these evaluations: scores of the task, or the loss of mlm, by step."""

    def make(name, shown, done=True, part="dev", host="", **settings):
        resolved, folder, step = tiny(**settings), tmp_path / name, max(shown, default=0)
        lines = [line(resolved, step, part, value) for step, value in shown.items()]
        attempt = Attempt(0, 0.0, host or platform.node(), "cpu", 1)
        (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
        for file, text in {
            "resolved.json": resolved.model_dump_json(),
            "lock.json": "{}",
            "metrics.jsonl": "".join(json.dumps(each) + "\n" for each in lines),
            "attempts.jsonl": json.dumps(vars(attempt)) + "\n",
            **({"digests.json": json.dumps({"weights": {"step": step}})} if done else {}),
        }.items():
            (folder / file).write_text(text)
        return folder

    return make


def line(resolved, step, part, value):
    stage = resolved.stage_after(step)
    found = {"kind": "eval", "step": step, "stage": stage.name, "loss": value, "tokens": step}
    tasks = stage.tasks
    scores = {t.title: {part: dict.fromkeys(t.metrics, value)} for t in tasks}
    losses = {t.title: 1 - value for t in tasks} or {"mlm": value}
    found["seconds"] = float(step)
    return {**found, "losses": losses, **({"scores": scores} if scores else {})}


def only(found):
    (group,) = found["groups"]
    return group


def as_json(*folders):
    return json.loads(results(folders).as_json())


def test_seeds_are_a_row(run, tmp_path):
    for seed, score in enumerate((0.5, 0.6, 0.7)):
        run(f"{seed}", {6: 0.1, 12: score}, objective=glue("rte"), seed=seed)
    found = only(as_json(tmp_path))
    (score,) = found["last"]
    assert (score["task"], score["part"], score["metric"]) == ("rte", "dev", "accuracy")
    assert score["mean"] == pytest.approx(0.6)
    assert score["deviation"] == pytest.approx(0.1)
    assert (score["best"], score["runs"], found["seeds"]) == (0.7, 3, [0, 1, 2])
    assert found["best"] == []
    assert "0.6000 ± 0.2484, 0.7000" in results([tmp_path]).as_table()
    run("again", {12: 0.6}, objective=glue("rte"), seed=1, recompute="on")
    groups = as_json(tmp_path)["groups"]
    assert [len(group["runs"]) for group in groups] == [3, 1], "a seed counts once"


def test_the_settings_that_differ_are_columns(run, tmp_path):
    for lr in (1e-3, 1e-4):
        for seed in (1, 2):
            rule = f"adamw({lr}, warmup=2)"
            run(f"{lr} {seed}", {12: 0.5}, objective=glue("rte"), seed=seed, optimizer=rule)
    run("deep", {12: 0.5}, objective=glue("rte"), layers=3)
    groups = as_json(tmp_path)["groups"]
    assert [len(group["runs"]) for group in groups] == [2, 2, 1]
    assert all(group["settings"].keys() == {"layers", "optimizer"} for group in groups)
    assert {group["settings"]["layers"] for group in groups} == {"2", "3"}


def test_steps_and_rates_that_differ_are_columns_where_nobody_wrote_them(run, tmp_path):
    derived = {"origins": {"steps": "derived: 3 passes over 40 examples"}}
    for name, steps, rate in (("a", 12, "1e-4"), ("b", 24, "1e-3")):
        folder = run(name, {steps: 0.5}, steps=steps, optimizer=f"adamw({rate}, warmup=2)")
        program = json.loads((folder / "resolved.json").read_text())
        (folder / "resolved.json").write_text(json.dumps(program | derived))
    settings = [group["settings"] for group in as_json(tmp_path)["groups"]]
    assert [entry["steps"] for entry in settings] == ["12", "24"]
    rates = [entry["optimizer"] for entry in settings]
    assert rates == ["adamw(lr=0.0001, warmup=2)", "adamw(lr=0.001, warmup=2)"]


def test_settings_of_stages_are_columns(run, tmp_path):
    task = glue("rte")
    for name, batch in (("a", 4), ("b", 8)):
        stages = {"text": {"steps": 6}, "task": {"objective": task, "steps": 6, "batch": batch}}
        run(name, {12: 0.5}, stages=stages, batch=8)
    settings = [group["settings"] for group in as_json(tmp_path)["groups"]]
    assert settings == [{"task.batch": "4"}, {"task.batch": "8"}]


def test_of_a_chain_each_stage_says_what_it_came_to(run, tmp_path):
    stages = {
        "text": {"steps": 4},
        "first": {"steps": 4, "objective": glue("sst2")},
        "then": {"steps": 4, "objective": glue("rte")},
    }
    shown = {3: 5.5, 4: 5.0, 6: 0.9, 8: 0.8, 10: 0.7, 12: 0.6}
    for seed in (1, 2):
        run(f"chain{seed}", shown, stages=stages, seed=seed)
    found = only(as_json(tmp_path))
    last = [(s.get("loss") or s["task"], s["mean"], s["runs"]) for s in found["last"]]
    assert last == [("mlm", 5.0, 2), ("sst2", 0.8, 2), ("rte", 0.6, 2)]
    (best,) = found["best"]
    assert (best["task"], best["mean"], best["steps"]) == ("rte", 0.7, [10])
    steps = [[e["step"] for e in (*r["earlier"], r["last"])] for r in found["runs"]]
    assert steps == [[4, 8, 12], [4, 8, 12]]
    assert "of the last evaluations of each stage" in results([tmp_path]).as_table()


def test_many_settings_are_below_one_another(run, tmp_path, monkeypatch):
    names = ("beginning", "continuing", "finishing")
    for turn in (0, 1):
        own = {name: {"steps": 4, "batch": 8 - turn, "seq": 24 - turn} for name in names}
        for number, found in enumerate(own.values()):
            found |= {"batch": found["batch"] + number, "seq": found["seq"] - number}
        run(f"{turn}", {12: 0.5}, stages=own)
    monkeypatch.chdir(tmp_path)
    table = results([Path()]).as_table()
    assert re.search(r"\n +beginning.seq=24\n", table)
    assert re.search(r"\n +finishing.batch=10\n", table)


def test_runs_with_other_scores_have_tables_of_their_own(run, tmp_path):
    names = ("beginning", "continuing", "finishing")
    own = {name: {"steps": 4, "batch": 8 - i, "seq": 24 - i} for i, name in enumerate(names)}
    run("chain", {12: 0.5}, stages=own)
    for lr in (1e-3, 2e-3):
        for seed in (1, 2):
            optimizer = f"adamw({lr}, warmup=2)"
            varied = {"seed": seed, "optimizer": optimizer, "hidden": 64, "layers": 3}
            shown = {6: 0.9, 12: 0.5 + seed / 10}
            run(f"lr {lr} {seed}", shown, objective=glue("rte", "mrpc", "stsb"), **varied)
    of_text, of_tasks = results([tmp_path]).as_table().split("\n\n")[:2]
    assert "held-out loss" in of_text
    assert "batch" not in of_text, "there is no other run of that kind"
    assert "hidden" not in of_tasks, "those of its kind agree on that"
    assert "adamw(lr=0.002, warmup=2" in of_tasks
    assert of_tasks.count("0.6500 ± 0.6353, 0.7000") == 10
    assert "rte dev accuracy" in of_tasks


def test_runs_of_a_task_that_differ_never_share_a_row(run, tmp_path):
    for name, dropout in (("a", 0.1), ("b", 0.2)):
        task = f"classify('a.tsv', labels=[a, b], examples=10, dropout={dropout})"
        run(name, {12: 0.5}, objective=task)
    texts = [group["settings"]["objective"] for group in as_json(tmp_path)["groups"]]
    assert ["dropout=0.2" in text for text in texts] == [False, True]


def test_tasks_are_columns_and_glue_has_its_average(run, tmp_path):
    for task in ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"):
        for seed in (1, 2):
            run(f"{task} {seed}", {12: 0.5 + seed / 10}, objective=glue(task), seed=seed)
    assert only(as_json(tmp_path))["glue_average"] == pytest.approx(0.65)
    assert "GLUE" in results([tmp_path]).as_table()
    run("both", {12: 0.5}, objective=glue("rte", "mrpc"))
    assert [len(group["runs"]) for group in as_json(tmp_path)["groups"]] == [1, 16]


BERT_LARGE = {
    "cola": {"mcc": 0.605, "accuracy": 0.8}, "sst2": {"accuracy": 0.949},
    "mrpc": {"f1": 0.893, "accuracy": 0.854}, "stsb": {"pearson": 0.876, "spearman": 0.865},
    "qqp": {"f1": 0.721, "accuracy": 0.893}, "mnli": {"accuracy": (0.867 + 0.859) / 2},
    "qnli": {"accuracy": 0.927}, "rte": {"accuracy": 0.701}, "wnli": {"accuracy": 0.651},
    "ax": {"mcc": 0.396, "accuracy": 0.7},
}  # fmt: skip
"""Its row on the leaderboard, where its score is 80.5."""


def test_the_average_is_the_leaderboards():
    scores = {(task, "dev", m): v for task, of in BERT_LARGE.items() for m, v in of.items()}
    assert round(100 * glue_average(scores), 1) == 80.5
    eight = {score: value for score, value in scores.items() if score[0] != "wnli"}
    assert glue_average(eight) == pytest.approx((9 * glue_average(scores) - 0.651) / 8)


def test_tasks_with_other_seeds_have_rows_of_their_own(run, tmp_path):
    for seed in (1, 2):
        run(f"rte {seed}", {12: 0.5 + seed / 10}, objective=glue("rte"), seed=seed)
    run("cola 1", {12: 0.1}, objective=glue("cola"), seed=1)
    assert len(as_json(tmp_path)["groups"]) == 1
    run("mrpc 3", {12: 0.1}, objective=glue("mrpc"), seed=3)
    assert [group["seeds"] for group in as_json(tmp_path)["groups"]] == [[1], [3], [1, 2]]


def test_the_best_evaluation_is_printed_where_it_is_not_the_last(run, tmp_path):
    run("1", {4: 0.6, 8: 0.8, 12: 0.7}, objective=glue("rte"), seed=1)
    run("2", {4: 0.6, 8: 0.7, 12: 0.9}, objective=glue("rte"), seed=2)
    (best,) = only(as_json(tmp_path))["best"]
    assert best["steps"] == [8, 12]
    assert best["mean"] == pytest.approx(0.85)
    table = results([tmp_path]).as_table()
    assert "0.8000 ± 1.2706, 0.9000" in table
    assert "0.8500 ± 0.6353, 0.9000 at 8, 12" in table


def test_of_text_the_losses_are_shown_the_lowest_as_the_best(run, tmp_path):
    run("1", {6: 4.0, 12: 3.0}, seed=1)
    run("2", {6: 2.0, 12: 2.5}, seed=2, objective="mlm")
    found = only(as_json(tmp_path))
    assert [(s["loss"], s["best"]) for s in found["last"]] == [("mlm", 2.5)]
    assert [(s["loss"], s["best"], s["steps"]) for s in found["best"]] == [("mlm", 2.0, [6, 12])]


def test_an_unfinished_run_stands_alone(run, tmp_path):
    run("1", {12: 0.5}, objective=glue("rte"), seed=1)
    run("2", {6: 0.9}, done=False, objective=glue("rte"), seed=2)
    groups = as_json(tmp_path)["groups"]
    found = [(r["step"], r["finished"]) for g in groups for r in g["runs"]]
    assert found == [(12, True), (6, False)]
    assert "unfinished: 6/12" in results([tmp_path]).as_table()
    (run("3", {4: 0.5}, done=False) / "metrics.jsonl").unlink()
    assert "unfinished: 4/12" in results([tmp_path]).as_table()


def test_runs_of_unlike_bodies_stand_in_one_table(run):
    of_transformer, of_lstm = (run(name, {12: 0.5}) for name in ("transformer", "lstm"))
    resolved = resolve("body=bilstm(8) vocab=120 objective=mlm seq=24 batch=8 steps=12")
    (of_lstm / "resolved.json").write_text(resolved.model_dump_json())
    table = results([of_transformer, of_lstm]).as_table()
    assert "bilstm(hidden=8)" in table or "bilstm(8)" in table
    assert "heads=2" in table


def test_models_are_no_runs(run, tmp_path):
    folder = run("deep/below/1", {12: 0.5}, objective=glue("rte"))
    for inside in (folder / "model" / "generator", tmp_path / "imported"):
        inside.mkdir(parents=True)
        (inside / "resolved.json").write_text("{}")
    assert len(only(as_json(tmp_path, folder))["runs"]) == 1
    pytest.raises(MissingInputError, results, [tmp_path / "imported"]).match("no run in")
    (tmp_path / "imported" / "config.json").touch()
    caught = pytest.raises(MissingInputError, results, [tmp_path / "imported"])
    assert caught.value.help == f"bertc import {tmp_path / 'imported'} --out DIR makes one"
    pytest.raises(MissingInputError, results, [tmp_path / "none"]).match("there is no folder")


def names(listing):
    return [run.folder.name for run in listing.runs]


def test_runs_have_a_state_a_score_and_a_cost(run, tiny, tmp_path):
    run("runs/done", {6: 4.0, 12: 4.5})
    stopped = run("runs/stopped", {6: 3.0}, done=False, hidden=64)
    failed = run("runs/failed", {}, done=False, layers=1)
    with pytest.raises(DataError), RunFolder(failed).noting_failure():
        raise DataError("the loss is not finite")
    with pytest.raises(StoppedError), RunFolder(stopped).noting_failure():
        raise StoppedError("stopped")
    (run("runs/damaged", {}, done=False) / "metrics.jsonl").write_text("{}\n")
    with RunFolder(run("runs/going", {3: 5.0}, done=False)).claim():
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
    run("runs/<b>", {6: 4.0}, done=False, hidden=64, seed=3)
    run("runs/two", {}, done=False)
    (run("runs/damaged", {}, done=False) / "metrics.jsonl").write_text("{}\n")
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
    run("runs/one", {}, done=False, hidden=64, seed=3)
    run("runs/two", {}, done=False, stages={"a": {"seq": 16, "steps": 6}, "b": {"steps": 6}})
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
    wrong = pytest.raises(SpecError, list_runs, [folder], ["hiden=64"])
    assert str(wrong.value.diagnostics[0].span) == "--where:1:1"
    for where, error in (
        (["hidden"], UsageError),
        (["state=done"], UsageError),
        (["stat=stopped"], SpecError),
    ):
        pytest.raises(error, list_runs, [folder], where)
    with pytest.raises(UsageError, match="no runs are sorted by 'date'"):
        list_runs([folder], order="date")


def test_a_run_on_another_machine_trains_while_it_writes(run, monkeypatch):
    folder = RunFolder(run("runs/far", {3: 5.0}, done=False, host="another"))
    assert module.state_of(folder, folder.read_resolved()) == "training"
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.0)
    assert module.state_of(folder, folder.read_resolved()) == "stopped"


def test_the_command_shows_names_as_text(run, tmp_path, call):
    run("runs/\x1b[31mred\u202e[bold]", {}, done=False)
    assert "\\x1b[31mred\\u202e[bold]" in call("runs", str(tmp_path / "runs"))[1]


def test_curves_and_attempts_of_a_run_with_stages_that_was_resumed(tiny, tmp_path, go):
    program = tiny('objective=mlm+0.5*sop stage "one" {steps=6} stage "two" {steps=6 seq=16}')
    folder = tmp_path / "run"
    go(program)
    shutil.rmtree(folder / "checkpoints" / "step-00000012")
    with open(folder / "attempts.jsonl", "a") as file:
        file.write('{"step": 0, "ti')
    go(program, resume=True)

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
    spec = f"vocab='{tmp_path}/vocab.txt' layers=2 hidden=32 heads=2 batch=4 seq=64 log_every=3 "
    spec += f"steps=6 task=classify('{tmp_path}/train.tsv', pair=pair)"
    printed = estimate(spec)
    assert printed.stages[0].row_tokens == 8
    go(resolve(spec))
    flops, _ = curves(tmp_path / "run").of("train/loss", "flops")
    assert flops[1] == 2 * flops[0] == pytest.approx(printed.flops.train_total, rel=0.05)
    (listed,) = list_runs([tmp_path]).runs
    assert listed.flops == flops[1]


def test_a_damaged_line_of_attempts_is_named_and_a_claimed_run_in_use(tmp_path):
    (tmp_path / "attempts.jsonl").write_text('{"step": 0}\n')
    with pytest.raises(DataError, match=r"attempts.jsonl:1 is damaged"):
        RunFolder(tmp_path).read_attempts()
    folder = RunFolder(tmp_path / "run")
    assert not folder.in_use
    with folder.claim():
        assert folder.in_use
    assert not folder.in_use
