"""``bertc reproduce``: a table of one's own, trained, stopped, shared by processes, and shown."""

import json
import os

import pytest

from bertc import cli
from bertc.runs.attempts import read
from bertc.storage.claims import claim
from bertc.tables import training
from bertc.tables.costs import waiting
from bertc.tables.files import Files
from bertc.tables.programs import Jobs
from bertc.tables.reading import read_table
from bertc.tables.results import RowResult, TableResults
from bertc.tables.showing import Shown
from bertc.train import loop

TABLE = """
title = "Depth"
paper = "Nobody 2020"
place = "Table 1"
asks = "Are two layers better than one?"
source = "made up"
spec = "layers=24 hidden=768 objective=mlm data=$text"
[needs.text]
path = "farm.txt"
form = "plain text"
source = "a farm"
given = "files($path)"
[needs.said]
path = "said.tsv"
form = "two columns, text and label"
source = "a farm"
[[measures]]
name = "perplexity"
score = "mlm"
better = "less"
shown = "perplexity"
[[measures]]
name = "animals"
spec = "init=$run task=classify($said, dev=$said) epochs=1"
score = "dev.accuracy"
shown = "percent"
[[measures]]
name = "both"
mean = ["perplexity", "animals"]
[[rows]]
name = "one / first"
spec = "layers=12"
published = { parameters = 110e6, perplexity = 4.5 }
[[rows]]
name = "two"
spec = "layers=24"
published = { perplexity = 4.1 }
[[claims]]
says = "deeper is better"
measure = "perplexity"
order = ["two", "one / first"]
[scales.tiny]
spec = '''
hidden=32 heads=2 ffn=64 vocab=wordpiece(60) holdout=10% seq=16 batch=8 steps=4 eval_every=2
save_every=2 optimizer=adamw(lr=1e-3) device=cpu compile=off precision=fp32
'''
tasks = "seq=16 batch=8 device=cpu compile=off precision=fp32 eval_every=100 save_every=100"
layers = "1/12"
"""
OUT = "runs/tables/depth/tiny"
FOLDERS = ("one-first", "two")


@pytest.fixture
def call(tmp_path, monkeypatch, corpus_file, cache, capsys):
    """Run the command in this process: its exit code, and what it printed where."""
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "LOOK_SECONDS", 0.01)
    (tmp_path / "depth.toml").write_text(TABLE)
    (tmp_path / "farm.txt").write_text(corpus_file.read_text())
    rows = [f"the {animal} said so\t{animal}" for animal in ("hen", "duck") for _ in range(4)]
    (tmp_path / "said.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["bertc", "reproduce", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), *capsys.readouterr()

    return run


TRAIN = ("depth.toml", "--scale", "tiny", "--data", ".")


def taken_up(folder):
    """How often each run of a table was begun or gone on with, by its place."""
    files = sorted(folder.rglob("attempts.jsonl"))
    return {str(file.parent.relative_to(folder)): len(read(file)) for file in files}


def test_a_table_stopped_goes_on_and_trains_nothing_twice(call, tmp_path, monkeypatch):
    step, folder = loop._step, tmp_path / "runs/tables/depth/tiny"
    with monkeypatch.context() as patch:

        def stop(session, *others):
            if "two" in str(session.folder.path) and session.progress.step == 3:
                session.ranks.stop.agree(15)
            return step(session, *others)

        patch.setattr(loop, "_step", stop)
        code, out, err = call(*TRAIN)
    assert (code, out) == (143, "")
    assert err.endswith("help: the same command goes on from here\n")
    code, out, err = call("depth.toml", "--show")
    assert code == 0, err
    assert "2 of 4 runs of seed 1 are not finished" in out
    code, out, err = call(*TRAIN, "--plot", "depth.svg")
    assert code == 0, err
    places = {f"{row}/seed-1/{run}" for row in FOLDERS for run in ("pretraining", "animals")}
    resumed = "two/seed-1/pretraining"
    assert taken_up(folder) == {place: 1 + (place == resumed) for place in places}
    (tmp_path / "depth.toml").write_text(TABLE.replace('spec = "layers=24"', 'spec = "layers=36"'))
    code, _, said = call(*TRAIN)
    assert code == 76
    assert "two/seed-1/pretraining is not of the table as it is now" in said
    assert "layers: 2 -> 3" in said
    for data in ((), ("--data", ".")):
        _, out, _ = call("depth.toml", "--show", *data)
        assert "two/seed-1/pretraining is not of the table as it is now, and left out: " in out
        assert out.count("is not of the table") == 1
        assert "not measured" in out, "no claim is made of a row that was another"
    (tmp_path / "depth.toml").write_text(TABLE.replace('"two"', '"deep"'))
    _, out, _ = call("depth.toml", "--show")
    assert "runs of no row that the table has now, left out: two" in out
    (tmp_path / "depth.toml").write_text(TABLE)
    _, out, _ = call("depth.toml", "--show")
    assert "left out" not in out
    head, one, two, *_ = out.splitlines()
    columns = ["row", "parameters", "flops", "perplexity", "published", "animals", "both"]
    assert head.split() == columns
    assert one.split()[:3] == ["one", "/", "first"]
    (claim,) = (line for line in out.splitlines() if line.startswith("deeper is better"))
    assert "perplexity  two > one / first" in claim
    assert claim.split()[-2:] == ["+0.4", "undecided"]
    assert "</svg>" in (tmp_path / "depth.svg").read_text()
    code, out, err = call("depth.toml", "--show", "--json")
    found = json.loads(out)
    for row, place in zip(found["rows"], FOLDERS, strict=True):
        last = json.loads(
            (folder / f"{place}/seed-1/animals/metrics.jsonl").read_text().split("\n")[-2]
        )
        assert row["same"] == ({"animals": [1]} if last.get("always") else {})
    (pair,) = found["claims"]
    assert (pair["better"], pair["verdict"]) == ("two", "undecided")
    first = found["rows"][0]["scores"]
    both = (first["perplexity"]["1"] + first["animals"]["1"]) / 2
    assert first["both"]["1"] == pytest.approx(both)
    assert (found["runs"], found["missing"]) == (4, 0)
    (tmp_path / "other.txt").write_text((tmp_path / "farm.txt").read_text())
    code, _, err = call(*TRAIN, "--data", "text=other.txt")
    assert code == 76
    assert "seed-1/pretraining is not of the table as it is now: data: files(" in err
    assert "; nor is 1 other run\n" in err, "their tasks read what they read before"
    again = (f"{OUT}/{row}/seed-1/{run}" for run in ("pretraining", "animals") for row in FOLDERS)
    assert err.endswith(f"removed: {', '.join(again)}\n")
    _, out, _ = call("depth.toml", "--show", "--data", ".", "--data", "text=other.txt")
    assert out.count("and left out: data: files(") == 2
    assert "left out with them: 2 runs that began with one" in out


def test_a_run_of_another_process_is_waited_for(call, tmp_path, monkeypatch):
    folder = tmp_path / "runs/tables/depth/tiny"
    other = claim(folder / ".claims" / "one-first,seed-1,pretraining")
    looks = []

    def sleep(seconds):
        looks.append(taken_up(folder))
        if len(looks) == 1:
            os.close(other)

    monkeypatch.setattr(training, "sleep", sleep)
    code, _, err = call(*TRAIN)
    assert code == 0, err
    assert "left: 2 runs of other processes, or waiting for them" in err
    assert looks == [{"two/seed-1/pretraining": 1, "two/seed-1/animals": 1}]
    assert set(taken_up(folder).values()) == {1}


def test_a_row_that_fails_is_told_and_the_rest_goes_on(call, tmp_path):
    text = (tmp_path / "depth.toml").read_text()
    (tmp_path / "depth.toml").write_text(
        text.replace('layers=24"\npub', "data=files('empty.txt')\"\npub")
    )
    (tmp_path / "empty.txt").touch()
    (tmp_path / "said.tsv").unlink()
    code, out, err = call(*TRAIN)
    assert code == 65
    assert "said.tsv is not there: two columns, text and label, from a farm" in err
    assert "two/seed-1/pretraining failed: " in err
    assert taken_up(tmp_path / "runs/tables/depth/tiny") == {"one-first/seed-1/pretraining": 1}
    (tmp_path / "farm.txt").unlink()
    code, _, err = call(*TRAIN, "--out", "others")
    assert code == 66
    assert "no row without files that are not there" in err


@pytest.mark.parametrize("name", ["tinybert-2", "tinybert-4", "heads-3", "distilbert-4"])
def test_tables_are_estimated_without_the_folders_they_need(call, name):
    code, out, err = call(name, "--scale", "tiny", "--estimate")
    assert code == 0, err
    assert " is not there: " in out


def test_estimates_say_what_they_rest_on(call):
    code, out, _ = call("pkd-2", "--scale", "tiny", "--estimate", "--device", "cpu")
    assert code == 0
    assert "bertc calibrate" in out
    assert "time of full rows, for want of a vocabulary or of examples: before: teacher, lab" in out
    code, out, _ = call("depth.toml", "--scale", "tiny", "--estimate")
    assert "full rows" not in out
    assert "bertc calibrate" not in out


ESTIMATE = (*TRAIN, "--estimate")
BOTH = 'name = "both"'


def asked(score, options, of="of = 'animals'"):
    """A measure that evaluates a run otherwise, before the last one."""
    return f"name = 'asked'\n{of}\nscore = '{score}'\neval = {{{options}}}\n[[measures]]\n{BOTH}"


@pytest.mark.parametrize(
    ("asked", "old", "new", "code", "said"),
    [
        (TRAIN, "=24", "=24 heads=7", 65, "--> depth.toml, rows.two.spec:1:10"),
        (TRAIN, 'tasks = "seq=16', 'tasks = "seq=32', 65, "--> depth.toml, scales.tiny.tasks:1:1"),
        (TRAIN, "epochs=1", "hidden=64", 65, "weights of runs/tables/depth/tiny/one-first/seed-1/"),
        (TRAIN, "dev=$said", "dev='farm.txt'", 65, "first, measure animals: farm.txt"),
        (ESTIMATE, "epochs=1", "epoch=1", 65, "--> depth.toml, measures.animals.spec:1:"),
        (ESTIMATE, '"mlm"', '"sop"', 2, "depth.toml, measures.perplexity.score: no evaluation has"),
        (ESTIMATE, '"dev.acc', '"animals.dev.acc', 2, "the score animals.dev.accuracy"),
        (ESTIMATE, BOTH, asked("mlm", "data = '$said'"), 2, "data and objective apply to text"),
        (TRAIN, BOTH, asked("a", "task = 'classify($said, label=tx)'"), 65, "no column 'tx'"),
        (
            TRAIN,
            BOTH,
            asked("a", "task = 'classify(dev=\"no\")'"),
            66,
            "measure asked: no is not there",
        ),
        (
            TRAIN,
            BOTH,
            asked("test.f1", "task = 'classify($said)'"),
            2,
            "measures.asked.score: test.f1",
        ),
        (
            TRAIN,
            BOTH,
            asked("sop", "objective = 'sop'", ""),
            2,
            "measure asked: this run learned mlm",
        ),
        (TRAIN, BOTH, asked("mlm", "sliding = 8", ""), 2, "windows predict next tokens"),
        (TRAIN, BOTH, asked("mlm", "data = 'nowhere'", ""), 66, "no file matches nowhere"),
        (
            TRAIN,
            '=24"\npub',
            '=24 seed={1, 2}"\npub',
            2,
            "depth.toml, rows.two.spec: seed= would be r",
        ),
        (TRAIN, "epochs=1", "seed=3", 2, "measures.animals.spec: seed= would be replaced"),
        (
            TRAIN,
            '=24"\npub',
            "=24 data=files('no')\"\npub",
            65,
            "note: files named by [needs.NAME] may",
        ),
        (TRAIN, "dev=$said", "dev='no.tsv'", 66, "named by [needs.NAME] may be missing: runs with"),
        (TRAIN, "farm.txt", ".", 65, "error[E307]: . is a folder"),
        (
            (*TRAIN, "--data", "text=./**/f*.txt"),
            "layers=12",
            "layer=12",
            65,
            "rows.one / first.sp",
        ),
        (TRAIN, "farm.txt", "*.texts", 66, "*.texts is not there"),
    ],
)
def test_runs_are_looked_at_before_one_is_trained(call, tmp_path, asked, old, new, code, said):
    text = (tmp_path / "depth.toml").read_text()
    (tmp_path / "depth.toml").write_text(text.replace(old, new))
    found, _, err = call(*asked)
    assert (found, said in err) == (code, True), err
    assert sum(line.startswith("error") for line in err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_row_that_writes_what_all_rows_have_stays_like_them(tmp_path):
    (tmp_path / "depth.toml").write_text(TABLE.replace('"layers=12"', '"H=768 E=384"'))
    table = read_table(str(tmp_path / "depth.toml"))
    jobs = Jobs(table, "tiny", Files(None, {"text": tmp_path}), tmp_path)
    first, second = (next(iter(jobs.of(row, 1))).program().encoder for row in table.rows)
    assert (first.hidden, first.embedding, second.hidden) == (32, 16, 32)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("order = [", 'order = ["three", ', "the claim `deeper is better` names three"),
        ('score = "mlm"', "", "measure perplexity needs a score, or a mean of others"),
        ('layers = "1/12"', "layer = 2", "scales.tiny.layer"),
        ('name = "two"', 'name = "one / first"', "two rows are called one / first"),
        ("[[rows]]", "[[rows]", "is no TOML"),
        (
            'better = "less"',
            'better = "high"',
            "perplexity.better: it is one of 'more', 'less', not",
        ),
        ('title = "Depth"', "title = 3", "title: a text in quotes expected, not 3"),
        ('title = "Depth"', "", "title: it has to be there, and is not"),
        ('"two", "one / first"]', '"two"]', "claims.deeper is better.order: it has at least 2 en"),
        ('layers = "1/12"', 'layers = "1/0"', "scales.tiny.layers: 1/0 is no factor"),
        ('"1/12"', "1e9", "scales.tiny.layers: it is at most 100, not 1000000000.0"),
        ("[scales.tiny]", "[scales.tinny]", "scales.tinny: it is one of 'full', 'base'"),
        ("[scales.tiny]", "[scales]\nsmall = 3\n[scales.tiny]", "scales.small: a table [scales.s"),
        ("= 4.1", "= nan", "published.perplexity: a finite number expected, not nan"),
        ('"animals"]', '"both"]', "mean of both names both: there are perplexity, animals"),
        (
            '"mlm"',
            '"mlm"\neval = {memorry = 3}',
            "eval.memorry: nothing is called memorry here; did",
        ),
        ("$text", "$txt", "spec names txt: did you mean text?"),
        ("$path", "$pth", "needs.text names pth: did you mean path?"),
        ('"layers=12"', '"init=$run"', "row one / first names run: there are text, said"),
        ('"mlm"', '"mlm"\nof = "animals"', "measure perplexity has of, and no eval"),
        ("epochs=1", 'epochs=1"\neval = {seq = 3}#', "animals has one of spec, eval and mean"),
        ('"two"', '"one  first"', "one  first and one / first would have one folder"),
        ('"animals"', '"pretraining"', "two measures are called pretraining"),
        ("[needs.said]", "[needs.run]", "two needs and runs are called run"),
    ],
)
def test_what_is_no_table_says_where(call, tmp_path, old, new, said):
    text = (tmp_path / "depth.toml").read_text()
    (tmp_path / "depth.toml").write_text(text.replace(old, new))
    code, _, err = call("depth.toml", "--estimate")
    assert code == 65
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("albert-33",), 66, "did you mean albert-3?"),
        (("depth.toml",), 2, "--scale tiny, for a first look"),
        (("depth.toml", "--scale", "huge"), 2, "--scale full, base, small, tiny"),
        (("depth.toml", "--scale", "tiny", "--data", "x=y"), 2, "it needs text, said"),
        (("depth.toml", "--scale", "tiny", "--data", "no/where"), 66, "there is no no/where"),
        (("depth.toml", "--show"), 66, "was not begun yet"),
        (("depth.toml", "--show", "--estimate"), 2, "--show tells what came out, --estimate what"),
        (("depth.toml", "--show", "--plot", "m.pdf"), 2, "pictures are drawn as .png or .svg"),
        (("--show",), 2, "--show needs a table"),
        (("depth.toml", "--estimate", "--device", "foo"), 2, "unknown device foo"),
        (("depth.toml", "--estimate", "--data", "farm.txt"), 2, "farm.txt is a file"),
        ((*TRAIN, "--out", "farm.txt"), 2, "farm.txt is a file, and runs need a folder"),
    ],
)
def test_bad_arguments(call, arguments, code, said):
    found, _, err = call(*arguments)
    assert (found, said in err) == (code, True), err


def test_one_answer_for_all_examples_is_told(tmp_path):
    (tmp_path / "depth.toml").write_text(TABLE)
    row = RowResult("two", {"animals": {1: 50.0, 2: 50.0}}, None, None, 1.0, {"animals": [2]})
    results = TableResults("depth", "tiny", (row,), 4, 0)
    shown = Shown(read_table(str(tmp_path / "depth.toml")), results)
    assert "animals: all examples got one answer in two (seed 2)" in shown.as_text()
    (tmp_path / "kept.json").write_text(shown.as_json())
    assert TableResults.read(tmp_path / "kept.json") == results


GROWN = """
title = "Growth"
paper = "ours"
place = "table 1"
asks = "Is it better?"
source = "ours"
spec = "extends bert-mini data=$text teacher=$teacher objective=kd(logits)+mlm"
before = [{ name = "teacher", spec = "extends bert-mini data=$text" }]
measures = [{ name = "masked LM", score = "mlm", better = "less" }]
needs.text = { path = "text", form = "text", source = "ours", sketch = "docstrings" }

[[rows]]
name = "grown"
at.tiny = '''extends bert-mini data=$text
stage "one" { layers=1 steps=3 }
stage "two" { layers=2 steps=5 }'''

[[rows]]
name = "taught"
"""


def test_a_row_may_be_a_whole_spec_at_a_scale_and_estimates_need_no_runs_before(tmp_path):
    (tmp_path / "grown.toml").write_text(GROWN)
    table = read_table(str(tmp_path / "grown.toml"))
    jobs = Jobs(table, "tiny", Files(None, {}), tmp_path, sketched=True)
    grown, taught = (next(iter(jobs.of(row, 1))) for row in table.rows)
    assert [stage.steps for stage in grown.program().stages] == [3, 5]
    assert grown.lacks == taught.lacks == ("text",), "it stands for estimates alone"
    assert taught.program().stages, "a teacher without weights stands for the run before"


def test_a_table_ends_at_the_first_run_for_which_the_disk_is_too_small(call, monkeypatch):
    monkeypatch.setattr("bertc.storage.durable.free_bytes", lambda _: 2**10)
    code, _, err = call(*TRAIN, "--out", "runs")
    assert code == 74
    assert "cannot write runs/tiny/one-first/seed-1/pretraining: the disk is full" in err
    assert "two/seed-1" not in err


def test_a_run_waits_for_the_files_of_those_before_it(tmp_path):
    (tmp_path / "grown.toml").write_text(
        GROWN.replace("bert-mini data=$text teacher", "bert-mini teacher")
    )
    table = read_table(str(tmp_path / "grown.toml"))
    jobs = Jobs(table, "base", Files(None, {}), tmp_path)
    teacher, grown, taught = jobs.all([1])
    assert (teacher.lacks, grown.lacks, taught.lacks) == (("text",), (), ())
    assert [job.lacks for job in waiting(jobs.all([1]), tmp_path)] == [("text",)] * 3
