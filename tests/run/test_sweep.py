"""Runs by the point: ``bertc train`` of a grid, and ``bertc sweep``.
Failures are reported; one store serves several processes; stopped, all go on.
"""

import itertools
import json
import logging
import math
import shutil
import sqlite3
from contextlib import suppress
from functools import partial, partialmethod

import pytest

from bertc.base.diagnostics import CannotWriteError, DataError, MissingInputError, UsageError
from bertc.lab.report.page import Section, document
from bertc.lab.report.pictures import Dot, scatter
from bertc.lab.report.report import search_section
from bertc.lab.search.goal import Goal
from bertc.lab.search.outcome import read_outcome
from bertc.lab.search.store import DATABASE, open_store, read_store, reading_store
from bertc.lab.search.trials import Drawing
from bertc.lab_api import space
from bertc.run.models.loading import read_model
from bertc.run.records.folder import RunFolder
from bertc.run.train.grid import folder_name
from tests.run.conftest import change_losses, same_run, stopping

SPEC = """
layers={{1..2}} hidden=32 heads=2 ffn=64 vocab=wordpiece(60) data=files("{data}") holdout=10%
seq=16 batch=8 steps=6 eval_every=2 objective=mlm optimizer=adamw(lr={{1e-4..1e-1:log}})
device=cpu compile=off precision=fp32
"""
GOAL = Goal("mlm", more_is_better=False)


@pytest.fixture
def sweep(tmp_path, corpus_file, at_home, call):
    """Run the command on the spec in this process: its exit code, and what it printed where."""
    (tmp_path / "farm.bertc").write_text(SPEC.format(data=corpus_file))
    return partial(call, "sweep", "farm.bertc")


def test_a_sweep_stopped_goes_on_and_trains_nothing_twice(sweep, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "farm"
    with stopping(monkeypatch, 3, "trial-0002"):
        code, out, err = sweep("--trials", "2", "--for", "mlm")
    assert (code, out) == (143, "")
    assert "the same command goes on" in err
    code, out, err = sweep("--trials", "3", "--for", "mlm", "--json")
    assert code == 0, err
    assert "resuming at step 3 of 6" in err
    assert "trial 1 of 3" not in err
    trials = [RunFolder(folder / f"trial-000{n}").read_attempts() for n in (1, 2, 3)]
    assert [*map(len, trials)] == [1, 2, 1]
    found = json.loads(out)
    assert [trial["state"] for trial in found["trials"]] == ["finished"] * 3
    assert found["best"] == 1 + min(range(3), key=lambda n: found["trials"][n]["score"])
    code, out, err = sweep("--trials", "3", "--for", "mlm")
    best = found["trials"][found["best"] - 1]
    first = f"# farm: trial {found['best']}, mlm_masked {best['score']:.4f}"
    assert (code, out.splitlines()[0]) == (0, first)
    code, out, err = sweep("--trials", "3", "--for", "loss")
    assert (code, "has a search with another score" in err) == (2, True)


def test_halving_stops_a_trial_that_can_be_gone_on_with(sweep, command, capsys):
    code, out, err = sweep("--trials", "3", "--for", "mlm", "--prune", "halving")
    assert (code, "stopped early; bertc train --resume runs/farm/trial-000" in err) == (0, True)
    path = err.split("bertc train --resume ")[1].split(" goes on")[0]
    assert command("train", "--resume", path) == 0
    assert "6 of 6 steps" in capsys.readouterr()[0]


def test_a_budget_ends_a_search_that_a_larger_one_goes_on_with(sweep):
    code, out, err = sweep("--trials", "3", "--for", "mlm", "--budget", "1000")
    assert (code, out) == (0, "")
    assert "the budget is spent" in err
    assert "1 unfinished" in err


def test_a_trial_is_taken_by_one_and_one_that_was_left_is_found(tmp_path):
    one, other = (open_store(tmp_path, GOAL, {"spec": "x", "score": "mlm"}) for _ in range(2))
    draw = Drawing(space("dropout={0..0.3}"), 2).next
    with one.taken(draw) as first, other.taken(draw) as second:
        assert (first.number, second.number) == (0, 1)
        with one.taken(draw) as third:
            assert third is None, "two are enough"
    with other.taken(draw) as again:
        assert again.number == 0
        assert again.params == first.params
        other.study.tell(again, 0.5)
    with other.taken(draw) as last:
        assert last.number == 1
        last.set_user_attr("failed", "$x$ <b>")
        other.study.tell(last, state=one.optuna.trial.TrialState.PRUNED)
    outcome = read_outcome(tmp_path)
    assert [trial.state for trial in outcome.trials] == ["finished", "failed"]
    assert outcome.importances == {}
    found = str(document("", "", [Section("", search_section(tmp_path))]))
    assert f"mlm 0.5000 (trial {1 + first.number}). 2 trials took" in found
    pytest.raises(UsageError, open_store, tmp_path, GOAL, {"spec": "y"}).match("another spec")


def searched(folder, spec, trials):
    """Go on with a search to its end, without training; the values of its trials."""
    store, draws = open_store(folder, GOAL, FACTS), Drawing(space(spec), trials)
    while True:
        with store.taken(draws.next) as trial:
            if trial is None:
                return [trial.params for trial in store.trials]
            store.study.tell(trial, len(trial.params))


WRITES = ("create_new_trial", "set_trial_param", "set_trial_user_attr", "set_trial_state_values")


def test_a_search_cut_before_any_write_tries_the_same_values(tmp_path, monkeypatch):
    spec = "layers={2..30} dropout={0..0.3} optimizer=adamw({1e-5..1e-2:log})"
    storage = type(open_store(tmp_path / "empty", GOAL, FACTS).study._storage)
    wanted, cut, number = searched(tmp_path / "whole", spec, 3), True, 0
    assert len({*map(repr, wanted)}) == 3

    def counted(self, write, *arguments, **named):
        if next(writes) == number:
            raise KeyboardInterrupt
        return write(self, *arguments, **named)

    while cut:
        writes, number = itertools.count(), number + 1
        shutil.copytree(tmp_path / "empty", folder := tmp_path / str(number))
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            for name in WRITES:
                patch.setattr(storage, name, partialmethod(counted, getattr(storage, name)))
            searched(folder, spec, 3)
            cut = False
        assert searched(folder, spec, 3) == wanted
    assert number > 5


RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LIST = f"optimizer=adamw({{{', '.join(map(str, RATES))}}})"


def test_a_small_space_is_a_grid_and_no_point_is_tried_twice(tmp_path):
    whole = searched(tmp_path / "whole", LIST, 6)
    assert [float(value) for values in whole for value in values.values()] == [*RATES]
    assert searched(tmp_path / "whole", LIST, 9) == whole
    part = searched(tmp_path / "part", LIST, 5)
    assert len({*map(repr, part)}) == len(part) == 5
    every = searched(tmp_path / "part", LIST, 6)
    assert every[:5] == part
    assert sorted(map(repr, every)) == sorted(map(repr, whole))
    nested = searched(tmp_path / "nested", "layers={2..4} optimizer={adam({1e-4, 1e-3}), lamb}", 9)
    assert [[*values.values()][1:] for values in nested[:3]] == [
        ["adam({1e-4, 1e-3})", "1e-4"], ["adam({1e-4, 1e-3})", "1e-3"], ["lamb"],
    ]  # fmt: skip
    assert len(nested) == 9


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((*map(str, RATES),), "log"),
        ((1e-5, 5e-5), "log"),
        ((0.0, 0.3), "-"),
        (("none", "all"), "category"),
    ],
)
def test_the_axis_of_rates_is_logarithmic(values, kind):
    picture = scatter("a", [Dot({"a": value}, 0.5, 1, "") for value in values])
    assert [type(x) is str for x in picture.traces[0]["x"]] == [kind == "category"] * len(values)
    assert picture.layout["xaxis"]["type"] == kind


def test_values_that_are_words_are_in_the_order_of_their_numbers():
    rates = [f"adamw(lr={rate})" for rate in ("1e-05", "0.0003", "0.01")]
    picture = scatter("a", [Dot({"a": n}, 0.5, 1, "") for n in ("none", *reversed(rates))])
    assert picture.layout["xaxis"]["categoryarray"] == [*rates, "none"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--for", "accuracie"], "no evaluation has the score accuracie"),
    (["--prune", "median"], "--prune halving"),
    (["--set", "steps=equal(flops)"], "trials have no first point"),
    (["--set", "layers=1", "--set", "optimizer=adam(1e-3)"], "nothing to search"),
])  # fmt: skip
def test_mistakes_are_reported_before_anything_runs(sweep, arguments, message):
    code, out, err = sweep(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_store_that_is_written_or_damaged_is_said_to_be_one(tmp_path):
    (tmp_path / DATABASE).touch()
    pytest.raises(MissingInputError, read_store, tmp_path).match("has no search yet")
    (tmp_path / DATABASE).write_bytes(b"what is this\n" * 999)
    pytest.raises(DataError, read_outcome, tmp_path).match(r"sweep.db is damaged")


FACTS = {"spec": "x", "score": "mlm"}


def test_a_search_stays_in_a_folder_of_any_name_and_signals_show_no_traceback(tmp_path, capsys):
    """As in one whose name means something in addresses."""
    folder = tmp_path / "a?x=1 b%41c #c"
    store = open_store(folder, GOAL, FACTS)
    with store.taken(Drawing(space("dropout={0..0.3}"), 1).next) as trial:
        trial.set_user_attr("settings", [])
        store.study.tell(trial, 0.5)
    assert (folder / DATABASE).is_file()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert [trial.score for trial in read_outcome(folder).trials] == [0.5]
    read_store(folder)
    logging.getLogger("sqlalchemy.pool.impl.QueuePool").error("Error closing cursor")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "said", ["database or disk is full", "disk I/O error", "attempt to write a readonly database"]
)
def test_a_place_that_takes_no_more_is_said_to_be_one(tmp_path, said):
    with pytest.raises(CannotWriteError, match=said) as caught, reading_store(tmp_path):
        raise sqlite3.OperationalError(said)
    assert "the same command goes on" in caught.value.help


GRID = """
layers=2 hidden=32 heads=2 ffn=64 vocab=wordpiece(60) data=files("{data}") holdout=10%
task=classify("{rows}", "{rows}") seq=16 batch=8 steps=4 eval_every=2
device=cpu compile=off precision=fp32
"""


@pytest.fixture
def grid(tmp_path, corpus_file, at_home):
    """Write a grid into a file: the common settings and some more."""
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\n" + "hens cackle\ta\nold red barn\tb\n" * 8)

    def write(more):
        (tmp_path / "farm.bertc").write_text(GRID.format(data=corpus_file, rows=rows) + more)
        return str(tmp_path / "farm.bertc")

    return write


def test_every_point_has_a_run_of_its_own(grid, call, tmp_path):
    spec = grid("seed={1, 2}")
    code, out, err = call("train", spec)
    assert (code, "point 2 of 2, seed=2:" in err) == (0, True)
    assert "classify dev" in out
    assert "accuracy" in out
    runs = [tmp_path / "runs" / "farm" / name for name in ("seed=1", "seed=2")]
    assert [read_model(run)[0].run.seed for run in runs] == [1, 2]
    assert (runs[1] / "spec.bertc").read_text().endswith("seed={1, 2}\n# the point seed=2\n")
    code, out, err = call("train", spec)
    assert (code, out) == (2, "")
    assert "holds a run already" in err
    code, again, err = call("train", spec, "--resume")
    assert (code, "point 1 of 2, seed=1: finished" in err) == (0, True)
    assert "point 2 of 2, seed=2: finished" in err
    code, out, err = call("train", spec, "--resume", "--set", "steps=5")
    assert (code, "steps: 4 -> 5" in err) == (76, True)
    assert "--set seed=1 --set 'init=" in err, "one point of the grid goes on"
    assert call("runs", "--results", "runs") == (0, again, "")


def test_a_point_that_fails_is_reported_and_the_others_go_on(grid, call, monkeypatch):
    spec = grid("optimizer=adam(lr={1e-2, 1e-3})")

    def poisoned(stage, _, loss, statistics, memory):
        bad = math.nan if stage.optimizer.lr == 1e-2 else 1
        return loss * bad, statistics * bad, memory

    change_losses(monkeypatch, poisoned)
    code, out, err = call("train", spec, "--out", "out")
    assert (code, "is not a finite number" in err) == (65, True)
    assert "point 2 of 2, optimizer=adam(lr=0.001):" in err
    assert "unfinished: 0/4" in out
    code, out, err = call("train", spec, "--out", "out", "--resume")
    assert (code, "is not a finite number" in err) == (65, True)
    assert "point 2 of 2, optimizer=adam(lr=0.001): finished" in err


def test_stopped_it_goes_on_with_the_points_that_are_left(grid, call, tmp_path, monkeypatch):
    spec = grid("seed={1, 2, 3}")
    assert call("train", spec, "--out", "straight")[0] == 0
    with stopping(monkeypatch, 2, "seed=2"):
        code, out, err = call("train", spec, "--out", "stopped")
    assert (code, out) == (143, "")
    assert "stopped after step 2, and saved" in err
    assert not (tmp_path / "stopped" / "seed=3").exists()
    code, out, err = call("runs", "--results", "stopped")
    assert "unfinished: 2/4" in out
    code, out, err = call("train", spec, "--out", "stopped", "--resume")
    assert (code, "seed=1: finished" in err) == (0, True)
    assert "resuming at step 2 of 4" in err
    for name in ("seed=1", "seed=2", "seed=3"):
        same_run(tmp_path / "straight" / name, tmp_path / "stopped" / name)


def test_several_processes_are_refused(grid, call, monkeypatch):
    code, _, err = call("train", grid("seed={1, 2}"), "--nproc", "2")
    assert (code, "a grid of 2 points is trained in one process" in err) == (2, True)
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    code, _, err = call("train", grid("seed={1, 2}"))
    assert (code, "trained in one process" in err) == (2, True)


def test_names_of_folders():
    for point, name in {
        "seed=1": "seed=1",
        "E=64 long.seq=512": "E=64,long.seq=512",
        "optimizer=adam(lr=1e-5) seed=2": "optimizer=adam-lr=1e-5,seed=2",
        "optimizer=adam(lr=1e-5, warmup=3)": "optimizer=adam-lr=1e-5,warmup=3",
    }.items():
        assert folder_name(point) == name
    one, other = (folder_name(f'data=files("/a{c}b.txt")') for c in "/ ")
    assert one != other
    assert one.startswith("data=files-a-b.txt-")
    assert "/" not in one
    assert len(folder_name("heads=" + "1" * 500)) < 120
