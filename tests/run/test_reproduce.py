"""``bertc reproduce`` and ``bertc glue``: tables of results.
A table of one's own is trained, stopped, shared by processes, and shown; tasks of GLUE by one
setting have means, medians and averages.
"""

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean, median

import pytest

from bertc.lab.reproduce import training
from bertc.lab.reproduce.files import data_files
from bertc.lab.reproduce.glue import GlueScores, of_tasks
from bertc.lab.reproduce.programs import Jobs
from bertc.lab.reproduce.reading import read_table
from bertc.lab.reproduce.reproduce import trainable
from bertc.lab.reproduce.results import RowResult, TableResults, with_means
from bertc.lab.reproduce.showing import Shown
from bertc.lab.results.groups import glue_average
from bertc.run.records.folder import RunFolder
from tests.run.conftest import lines, stopping

TABLE = Path(__file__).with_name("depth.toml").read_text()
OUT = Path("runs/tables/depth/tiny")
FOLDERS = ("one-first", "two")


@pytest.fixture
def reproduce(monkeypatch, corpus_file, at_home, call):
    """Run the command in this process: its exit code, and what it printed where."""
    monkeypatch.setattr(training, "LOOK_SECONDS", 0.01)
    Path("depth.toml").write_text(TABLE)
    Path("farm.txt").write_text(corpus_file.read_text())
    Path("said.tsv").write_text("text\tlabel\n" + "the hen said so\then\nthe duck\tduck\n" * 4)
    return partial(call, "reproduce")


TRAIN = ("depth.toml", "--scale", "tiny", "--data", ".")


def taken_up(folder):
    """How often each run of a table was begun or gone on with, by its place."""
    runs = sorted(file.parent for file in folder.rglob("attempts.jsonl"))
    return {str(run.relative_to(folder)): len(RunFolder(run).read_attempts()) for run in runs}


def test_a_table_stopped_goes_on_and_trains_nothing_twice(reproduce, monkeypatch):
    with stopping(monkeypatch, 3, "two"):
        code, out, err = reproduce(*TRAIN)
    assert (code, out) == (143, "")
    assert err.endswith("help: the same command goes on from here\n")
    code, out, err = reproduce("depth.toml", "--show")
    assert code == 0, err
    assert "2 of 4 runs of seed 1 are not finished" in out
    code, out, err = reproduce(*TRAIN)
    assert code == 0, err
    places = {f"{row}/seed-1/{run}" for row in FOLDERS for run in ("pretraining", "animals")}
    resumed = "two/seed-1/pretraining"
    assert taken_up(OUT) == {place: 1 + (place == resumed) for place in places}
    Path("depth.toml").write_text(TABLE.replace('spec = "layers=24"', 'spec = "layers=36"'))
    code, _, said = reproduce(*TRAIN)
    assert code == 76
    assert "two/seed-1/pretraining was trained for another row or other files than now" in said
    again = ", ".join(f"{OUT}/two/seed-1/{run}" for run in ("pretraining", "animals"))
    assert said.endswith(f"removed: {again}\n")
    _, out, _ = reproduce("depth.toml", "--show")
    said = "not of the table as it is now, and left out: "
    assert f"{said}two/seed-1/pretraining, two/seed-1/animals\n" in out
    assert "not measured" in out, "no claim is made of a row that was another"
    Path("depth.toml").write_text(TABLE.replace('"two"', '"deep"'))
    _, out, _ = reproduce("depth.toml", "--show")
    assert f"{said}two\n" in out, "a row that is no more"
    Path("depth.toml").write_text(TABLE)
    _, out, _ = reproduce("depth.toml", "--show")
    assert "left out" not in out
    head, one, two, *_ = out.splitlines()
    columns = ["row", "parameters", "flops", "perplexity", "published", "animals", "both", "work"]
    assert head.split() == columns
    assert one.split()[:3] == ["one", "/", "first"]
    (claim,) = (line for line in out.splitlines() if line.startswith("deeper is better"))
    assert "perplexity  two > one / first" in claim
    assert claim.split()[-2:] == ["+0.4", "undecided"]
    code, out, err = reproduce("depth.toml", "--show", "--json")
    found = json.loads(out)
    for row, place in zip(found["rows"], FOLDERS, strict=True):
        last = lines(OUT / place / "seed-1" / "animals")[-1]
        assert row["same"] == ({"animals": [1]} if last.get("always") else {})
    (pair,) = found["claims"]
    assert (pair["better"], pair["verdict"]) == ("two", "undecided")
    first = found["rows"][0]["scores"]
    assert first["work"]["1"] == pytest.approx(found["rows"][0]["flops"] / 2 / 1e12)  # step 2 of 4
    both = (first["perplexity"]["1"] + first["animals"]["1"]) / 2
    assert first["both"]["1"] == pytest.approx(both)
    assert (found["runs"], found["missing"]) == (4, 0)
    Path("other.txt").write_text(Path("farm.txt").read_text())
    code, _, err = reproduce(*TRAIN, "--data", "text=other.txt")
    assert code == 76
    assert "one-first/seed-1/pretraining was trained for another row or other files than now" in err


def test_a_run_of_another_process_is_waited_for(reproduce, monkeypatch):
    other = ExitStack()
    other.enter_context(RunFolder(OUT / "one-first/seed-1/pretraining").claim())
    looks = []

    def sleep(seconds):
        looks.append(taken_up(OUT))
        if len(looks) == 1:
            other.close()

    monkeypatch.setattr(training, "sleep", sleep)
    code, _, err = reproduce(*TRAIN)
    assert code == 0, err
    assert "2 runs left, of other processes or waiting for them" in err
    assert looks == [{"two/seed-1/pretraining": 1, "two/seed-1/animals": 1}]
    assert set(taken_up(OUT).values()) == {1}


def test_a_row_that_fails_is_reported_and_the_rest_goes_on(reproduce):
    text = TABLE.replace('layers=24"\npub', "data=files('empty.txt')\"\npub")
    Path("depth.toml").write_text(text)
    Path("empty.txt").write_text(" \n")  # an empty file is refused before any run
    Path("said.tsv").unlink()
    code, out, err = reproduce(*TRAIN)
    assert code == 65
    assert "said.tsv is not there: two columns, text and label, from a farm" in err
    assert "two/seed-1/pretraining failed: " in err
    assert taken_up(OUT) == {"one-first/seed-1/pretraining": 1}
    Path("farm.txt").unlink()
    code, _, err = reproduce(*TRAIN, "--out", "others")
    assert (code, "no row without files that are not there" in err) == (66, True)


def test_estimates_need_no_files_and_say_what_they_rest_on(reproduce):
    for name in ("tinybert-2", "distilbert-4"):
        code, out, err = reproduce(name, "--scale", "tiny", "--estimate", "--device", "cpu")
        assert code == 0, err
        assert " is not there: " in out
        assert "bertc bench --calibrate" in out


@pytest.mark.parametrize(("arguments", "old", "new", "code", "said"), [
    (TRAIN, "=24", "=24 heads=7", 65, "--> depth.toml, row two:1:10"),
    (TRAIN, "=24", "=24 data=files('no')", 65, "error[E307]: "),
    (TRAIN, "=24", "={12, 24}", 2, "depth.toml, row two: the settings are a grid"),
    (TRAIN, "farm.txt", "*.texts", 66, "*.texts is not there"),
    (
        (*TRAIN, "--estimate"),
        '=24"\npub',
        '=24 heads=7"\npub',
        65,
        "two: depth.toml, row two:1:10: E",
    ),
])  # fmt: skip
def test_runs_are_checked_before_one_is_trained(reproduce, arguments, old, new, code, said):
    Path("depth.toml").write_text(TABLE.replace(old, new))
    found, out, err = reproduce(*arguments)
    assert (found, said in out + err) == (code, True), out + err
    assert not Path("runs").exists()


@pytest.mark.usefixtures("reproduce")
def test_a_row_that_writes_what_all_rows_have_stays_like_them(tmp_path):
    Path("depth.toml").write_text(TABLE.replace('"layers=12"', '"H=768 E=384"'))
    table = read_table("depth.toml")
    jobs = Jobs(table, "tiny", data_files(table, [f"text={tmp_path}"]), tmp_path)
    first, second = (job.program().encoder for job in jobs.firsts().values())
    assert (first.hidden, first.embedding, second.hidden) == (32, 16, 32)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("order = [", 'order = ["three", ', "the claim `deeper is better` names three"),
    ('score = "mlm"', "", "measure perplexity needs a score, or a mean of others"),
    ('layers = "1/12"', "layer = 2", "scales.tiny.layer"),
    ('name = "two"', 'name = "one / first"', "two rows are called one / first"),
    ("[[rows]]", "[[rows]", "is no TOML"),
    ('"less"', '"high"', "perplexity.better: it should be 'more' or 'less', not 'high'"),
    ('title = "Depth"', "title = 3", "title: it should be a valid string, not 3"),
    ('"two", "one / first"]', '"two"]', "claims.deeper is better.order: it should have at le"),
    ('"1/12"', "1e9", "scales.tiny.layers: it should be less than or equal to 100, not 1000"),
    ("[scales.tiny]", "[scales.tinny]", "scales.tinny: it should be 'full', 'base'"),
    ('"animals"]', '"both"]', "mean of measure both names both: there are perplexity, an"),
    ('"mlm"', '"mlm"\neval = {memorry = 3}', "names memorry: did you mean memory?"),
    ("epochs=1", "epochs=1 seed=3", "leave it out, --seeds 3 has seeds 1 to 3"),
    ("[[rows]]\nname", "[[rows]]\nnot = 3\nname", "rows.one / first.not: unknown key; "),
    ("$text", "$txt", "spec names txt: did you mean text?"),
    ("epochs=1", 'epochs=1"\neval = {seq = 3}#', "animals has one of spec, eval and mean"),
    ('"two"', '"one  first"', "one  first and one / first would have one folder"),
])  # fmt: skip
def test_what_is_no_table_says_where(reproduce, old, new, said):
    Path("depth.toml").write_text(TABLE.replace(old, new))
    code, _, err = reproduce("depth.toml", "--estimate")
    assert (code, said in err) == (65, True)


@pytest.mark.parametrize(("arguments", "code", "said"), [
    (("albert-33",), 66, "did you mean albert-3?"),
    (("depth.toml",), 2, "--scale tiny, for a first look"),
    (("depth.toml", "--scale", "huge"), 2, "--scale full, base, small, tiny"),
    (("depth.toml", "--scale", "tiny", "--data", "x=y"), 2, "it needs text, said"),
    (("depth.toml", "--scale", "tiny", "--data", "no/where"), 66, "there is no no/where"),
    (("depth.toml", "--show"), 66, "has no runs in runs/tables/depth/tiny"),
    (("depth.toml", "--show", "--estimate"), 2, "--show has results, --estimate"),
    (("--show",), 2, "--show needs a table"),
    (("depth.toml", "--estimate", "--device", "foo"), 2, "unknown device foo"),
    (("depth.toml", "--estimate", "--data", "farm.txt"), 2, "farm.txt is a file"),
    ((*TRAIN, "--out", "farm.txt"), 2, "farm.txt is a file, and runs need a folder"),
])  # fmt: skip
def test_bad_arguments(reproduce, arguments, code, said):
    found, _, err = reproduce(*arguments)
    assert (found, said in err) == (code, True), err


@pytest.mark.usefixtures("reproduce")
def test_one_answer_for_all_examples_is_reported():
    row = RowResult("two", {"animals": {1: 50.0, 2: 50.0}}, None, None, 1.0, {"animals": [2]})
    results = TableResults("depth", "tiny", (row,), 4, 0)
    shown = Shown(read_table("depth.toml"), results)
    assert "animals: all examples got one answer in two (seed 2)" in shown.as_text()


GROWN = Path(__file__).with_name("growth.toml").read_text()


def test_a_whole_spec_at_a_scale_and_runs_that_wait_for_those_before_them(tmp_path):
    (tmp_path / "grown.toml").write_text(GROWN)
    table = read_table(str(tmp_path / "grown.toml"))
    jobs = Jobs(table, "tiny", data_files(table), tmp_path, sketched=True)
    grown, taught = jobs.firsts().values()
    assert [stage.steps for stage in grown.program().stages] == [3, 5]
    assert grown.lacks == taught.lacks == ("text",), "it stands for estimates alone"
    assert taught.program().stages, "a teacher without weights stands for the run before"
    (tmp_path / "grown.toml").write_text(
        GROWN.replace("bert-mini data=$text teacher", "bert-mini teacher")
    )
    table = read_table(str(tmp_path / "grown.toml"))
    every = Jobs(table, "base", data_files(table), tmp_path).all([1])
    assert [job.lacks for job in every] == [("text",), (), ()]
    assert trainable(every) == []


def test_a_table_ends_at_the_first_run_for_which_the_disk_is_too_small(reproduce, monkeypatch):
    monkeypatch.setattr("bertc.base.storage.durable.free_bytes", lambda _: 2**10)
    code, _, err = reproduce(*TRAIN, "--out", "runs")
    assert code == 74
    assert "cannot write runs/tiny/one-first/seed-1/pretraining: the disk is full" in err
    assert "two/seed-1" not in err


ENCODER = "layers=1 hidden=16 heads=2 vocab=wordpiece(80) data=files('farm.txt') seq=16 batch=8 "
ENCODER += "steps=2 precision=fp32 device=cpu compile=off"
SMALLER = ("steps=3 seq=16 batch=4", "precision=fp32 device=cpu compile=off")
ROWS = {
    "MRPC": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{label}\t1\t2\thens {n}\tducks"),
    "RTE": ("index\tsentence1\tsentence2\tlabel", "{n}\thens {n}\tducks\t{entailed}entailment"),
}


@pytest.fixture
def glue(at_home, call, farm_run):
    """Run the command with two toy tasks: its exit code, and what it printed where."""
    for name, (head, row) in ROWS.items():
        Path("glue", name).mkdir(parents=True)
        for part in ("train", "dev"):
            rows = (row.format(n=n, label=n % 2, entailed="not_" * (n % 2)) for n in range(8))
            Path("glue", name, f"{part}.tsv").write_text("\n".join([head, *rows]) + "\n")
    Path("encoder").symlink_to(farm_run(ENCODER))
    sets = [word for text in SMALLER for word in ("--set", text)]
    return partial(call, "glue", "--data", "glue", *sets)


def test_a_killed_command_goes_on_and_each_task_has_a_run_a_seed(glue, monkeypatch, farm_run):
    folder = Path("runs/glue/encoder/full/encoder")
    two = ("encoder", "--tasks", "mrpc,rte", "--seeds", "2")
    with stopping(monkeypatch, 1, "seed-2"):
        code, out, err = glue(*two)
    assert (code, out) == (143, "")
    assert err.endswith("help: the same command goes on from here\n")
    code, out, err = glue(*two, "--json")
    assert code == 0, err
    places = [f"seed-{seed}/{task}" for seed in (1, 2) for task in ("MRPC-F1", "RTE")]
    assert taken_up(folder) == {place: 1 + (place == "seed-2/MRPC-F1") for place in places}
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
    _, out, _ = glue(*two)
    assert out.splitlines()[1].split() == ["score", "mean", "median", "seed", "1", "seed", "2"]
    Path("encoder").unlink()
    Path("encoder").symlink_to(farm_run(f"{ENCODER} seed=2"))
    code, _, err = glue(*two)
    assert code != 0
    assert "has runs of other weights than those of encoder" in err


def test_the_tasks_of_babylm_are_read_from_its_files(glue):
    asked = {"span1_text": "hens", "span2_text": "they", "text": "hens say they cackle"}
    rows = [json.dumps({**asked, "label": n % 2}) for n in range(8)]
    for part in ("train", "valid"):
        Path("glue", f"wsc.{part}.jsonl").write_text("\n".join(rows))
    code, out, err = glue("encoder", "--table", "babylm", "--tasks", "wsc", "--seeds", "1")
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


@pytest.mark.parametrize(("arguments", "code", "said"), [
    (("encoder", "--tasks", "rte,boolq"), 2, "--tasks of: mnli, qqp"),
    (("encoder", "--tasks", "cola"), 66, "CoLA is not there: train.tsv and dev.tsv of GLUE's"),
    (("none", "--tasks", "rte"), 66, "there is no none"),
    (("encoder", "--tasks", "rte", "--set", "batch={4, 8}"), 2, "the settings are a grid"),
    (("encoder", "--set", "task=glue(rte)"), 2, "task=... replaces the task of every run"),
])  # fmt: skip
def test_mistakes_name_what_to_write(glue, arguments, code, said):
    found, _, err = glue(*arguments)
    assert (found, said in err) == (code, True), err
    assert not Path("runs").exists()
