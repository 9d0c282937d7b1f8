"""``bertc glue``: tasks of GLUE by one setting, stopped and resumed; means, medians, averages."""

import json
from functools import partial
from pathlib import Path
from statistics import fmean, median

import pytest

from bertc.lab.reproduce.glue import GlueScores, of_tasks
from bertc.lab.reproduce.reading import read_table
from bertc.lab.reproduce.results import RowResult, TableResults, with_means
from bertc.lab.reproduce.showing import Shown
from bertc.lab.results.groups import glue_average
from bertc.run.records.folder import RunFolder
from tests.run.conftest import stopping

ENCODER = (
    "layers=1 hidden=16 heads=2 vocab=wordpiece(80) data=files('farm.txt') seq=16 batch=8 steps=2 "
    "precision=fp32 device=cpu compile=off"
)
SMALLER = ("steps=3 seq=16 batch=4", "precision=fp32 device=cpu compile=off")
ROWS = {
    "MRPC": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{label}\t1\t2\thens {n}\tducks"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "{n}\thens {n}\tducks\t{entailed}entailment"),
}


@pytest.fixture
def call(tmp_path, monkeypatch, cache, call, farm_run):
    """Run the command with two toy tasks: its exit code, and what it printed where."""
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    for name, (head, row) in ROWS.items():
        Path("glue", name).mkdir(parents=True)
        for part in ("train", "dev"):
            rows = (row.format(n=n, label=n % 2, entailed="not_" * (n % 2)) for n in range(8))
            Path("glue", name, f"{part}.tsv").write_text("\n".join([head, *rows]) + "\n")
    Path("encoder").symlink_to(farm_run(ENCODER))
    sets = [word for text in SMALLER for word in ("--set", text)]
    return partial(call, "glue", "--data", "glue", *sets)


def test_a_killed_command_goes_on_and_each_task_has_a_run_a_seed(call, monkeypatch, farm_run):
    folder = Path("runs/glue/encoder/full/encoder")
    two = ("encoder", "--tasks", "mrpc,rte", "--seeds", "2")
    with stopping(monkeypatch, 1, "seed-2"):
        code, out, err = call(*two)
    assert (code, out) == (143, "")
    assert err.endswith("help: the same command goes on from here\n")
    code, out, err = call(*two, "--json")
    assert code == 0, err
    places = [f"seed-{seed}/{task}" for seed in (1, 2) for task in ("MRPC-F1", "RTE")]
    attempts = {place: len(RunFolder(folder / place).read_attempts()) for place in places}
    assert attempts == {place: 1 + (place == "seed-2/MRPC-F1") for place in places}
    stage = RunFolder(folder / places[0]).read_resolved().stages[-1]
    assert (stage.batch, stage.optimizer.lr, stage.optimizer.betas) == (4, 4e-5, (0.9, 0.98))
    report = json.loads(out)
    assert (report["model"], report["runs"], report["missing"]) == ("encoder", 4, 0)
    scores = report["scores"]
    assert [*scores] == ["MRPC F1", "MRPC accuracy", "RTE", "MRPC", "average of 2"]
    for seed in ("1", "2"):
        last = RunFolder(folder / f"seed-{seed}/MRPC-F1").read_metrics()[-1]["scores"]
        of_mrpc = last["mrpc"]["dev"]
        assert scores["MRPC F1"]["seeds"][seed] == pytest.approx(100 * of_mrpc["f1"])
        assert scores["MRPC accuracy"]["seeds"][seed] == pytest.approx(100 * of_mrpc["accuracy"])
    _, out, _ = call(*two)
    assert out.splitlines()[1].split() == ["score", "mean", "median", "seed", "1", "seed", "2"]
    Path("encoder").unlink()
    Path("encoder").symlink_to(farm_run(f"{ENCODER} seed=2"))
    code, _, err = call(*two)
    assert code != 0
    assert "has runs of other weights than those of encoder" in err


def test_the_tasks_of_babylm_are_read_from_its_files(call):
    asked = {"span1_text": "hens", "span2_text": "they", "text": "hens say they cackle"}
    rows = [json.dumps({**asked, "label": n % 2}) for n in range(8)]
    for part in ("train", "valid"):
        Path("glue", f"wsc.{part}.jsonl").write_text("\n".join(rows))
    code, out, err = call("encoder", "--table", "babylm", "--tasks", "wsc", "--seeds", "1")
    assert code == 0, err
    assert out.startswith("babylm of encoder")
    run = RunFolder(Path("runs/babylm/encoder/full/encoder/seed-1/WSC"))
    assert run.read_resolved().stages[-1].optimizer.decay_exempt == "none"


def test_averages_are_those_of_the_leaderboard_and_of_papers():
    table = of_tasks(read_table("glue"), ())
    names = [measure.name for measure in table.measures if measure.score]
    assert "WNLI" not in names
    scores = {name: {s: 50.0 + at * s + s**2 for s in (1, 2, 4)} for at, name in enumerate(names)}
    row = RowResult("encoder", with_means(table, scores), None, None, 1.0)
    shown = GlueScores(Path("runs/a"), Shown(table, TableResults("glue", "full", (row,), 3, 0)))
    report = json.loads(shown.as_json())["scores"]
    by_task = {tuple(m.score.split(".")): report[m.name]["mean"] for m in table.measures if m.score}
    assert report["average of 8"]["mean"] == pytest.approx(glue_average(by_task))
    nine = next(measure.mean for measure in table.measures if measure.name == "average of 9")
    assert {*names} - {*nine} == {"QQP accuracy", "STS-B Spearman", "MRPC accuracy"}
    medians = [median(scores[name].values()) for name in nine]
    assert report["average of 9"]["median"] == pytest.approx(fmean(medians))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("encoder", "--tasks", "rte,boolq"), 2, "--tasks of: mnli, qqp"),
        (
            ("encoder", "--tasks", "cola"),
            66,
            "glue/CoLA is not there: train.tsv and dev.tsv of GLUE's CoLA",
        ),
        (("none", "--tasks", "rte"), 66, "there is no none"),
        (("encoder", "--tasks", "rte", "--set", "batch={4, 8}"), 2, "the settings are a grid"),
        (("encoder", "--set", "task=glue(rte)"), 2, "task=... replaces the task of every run"),
    ],
)
def test_mistakes_name_what_to_write(call, arguments, code, said):
    found, _, err = call(*arguments)
    assert (found, said in err) == (code, True), err
    assert not Path("runs").exists()
