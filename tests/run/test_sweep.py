"""``bertc sweep``: trials in run folders, one store for several processes, stopped and gone on."""

import itertools
import json
import logging
import shutil
import sqlite3
from contextlib import suppress
from functools import partial, partialmethod

import pytest

from bertc.base.diagnostics import CannotWriteError, DataError, MissingInputError, UsageError
from bertc.lab.report.page import Section, document
from bertc.lab.report.search import search_section, values_picture
from bertc.lab.search.drawing import Drawing
from bertc.lab.search.goal import Goal
from bertc.lab.search.outcome import read_outcome
from bertc.lab.search.store import DATABASE, open_store, read_store, reading_store
from bertc.lab_api import space
from bertc.run.records.folder import RunFolder
from tests.run.conftest import stopping

SPEC = """
layers={{1..2}} hidden=32 heads=2 ffn=64 vocab=wordpiece(60) data=files("{data}") holdout=10%
seq=16 batch=8 steps=6 eval_every=2 objective=mlm optimizer=adamw(lr={{1e-4..1e-1:log}})
device=cpu compile=off precision=fp32
"""
GOAL = Goal("mlm", more_is_better=False)


@pytest.fixture
def call(tmp_path, monkeypatch, corpus_file, cache, call):
    """Run the command on the spec in this process: its exit code, and what it printed where."""
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "farm.bertc").write_text(SPEC.format(data=corpus_file))
    return partial(call, "sweep", "farm.bertc")


def test_a_sweep_stopped_goes_on_and_trains_nothing_twice(call, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "farm"
    with stopping(monkeypatch, 3, "trial-0002"):
        code, out, err = call("--trials", "2", "--for", "mlm")
    assert (code, out) == (143, "")
    assert "the same command goes on" in err
    code, out, err = call("--trials", "3", "--for", "mlm", "--json")
    assert code == 0, err
    assert "resuming at step 3 of 6" in err
    assert "trial 1 of 3" not in err
    assert [len(RunFolder(folder / f"trial-000{n}").read_attempts()) for n in (1, 2, 3)] == [
        1, 2, 1,
    ]  # fmt: skip
    found = json.loads(out)
    assert [trial["state"] for trial in found["trials"]] == ["finished"] * 3
    assert found["best"] == 1 + min(range(3), key=lambda n: found["trials"][n]["score"])
    code, out, err = call("--trials", "3", "--for", "mlm")
    best = found["trials"][found["best"] - 1]
    first = f"# farm: trial {found['best']}, mlm_masked {best['score']:.4f}"
    assert (code, out.splitlines()[0]) == (0, first)
    code, out, err = call("--trials", "3", "--for", "loss")
    assert code == 2
    assert "has a search with another score" in err


def test_halving_stops_a_trial_that_can_be_gone_on_with(call, command, capsys):
    code, out, err = call("--trials", "3", "--for", "mlm", "--prune", "halving")
    assert code == 0
    assert "stopped early; bertc train --resume runs/farm/trial-000" in err
    path = err.split("bertc train --resume ")[1].split(" goes on")[0]
    assert command("train", "--resume", path) == 0
    assert "6 of 6 steps" in capsys.readouterr()[0]


def test_a_budget_ends_a_search_that_a_larger_one_goes_on_with(call, tmp_path):
    code, out, err = call("--trials", "3", "--for", "mlm", "--budget", "1000")
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
    assert outcome.slices() == {"dropout": [(first.params["dropout"], 0.5)]}
    assert outcome.importances() == {}
    found = str(document("", "", [Section("", search_section(tmp_path))]))
    assert f"mlm 0.5000 (trial {1 + first.number}). 2 trials took" in found
    with pytest.raises(UsageError, match="another spec"):
        open_store(tmp_path, GOAL, {"spec": "y"})


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
    (rates,) = read_outcome(tmp_path / "whole").slices().values()
    assert [value for value, _ in rates] == [*RATES]


@pytest.mark.parametrize(
    ("values", "kind"),
    [(RATES, "log"), ((1e-5, 5e-5), "log"), ((0.0, 0.3), "-"), (("none", "all"), "category")],
)
def test_the_axis_of_rates_is_logarithmic(values, kind):
    picture = values_picture("a", [(value, 0.5) for value in values], 1)
    assert picture.layout["xaxis"]["type"] == kind


def test_values_that_are_words_are_in_the_order_of_their_numbers():
    rates = [f"adamw(lr={rate})" for rate in ("1e-05", "0.0003", "0.01")]
    picture = values_picture("a", [(value, 0.5) for value in ("none", *reversed(rates))], 1)
    assert picture.layout["xaxis"]["categoryarray"] == [*rates, "none"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for", "accuracie"], "no evaluation has the score accuracie"),
        (["--prune", "median"], "--prune halving"),
        (["--set", "steps=equal(flops)"], "trials have no first point"),
        (["--set", "layers=1", "--set", "optimizer=adam(1e-3)"], "nothing to search"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(call, arguments, message):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_store_that_is_being_written_is_told_from_one_that_is_there(tmp_path):
    (tmp_path / DATABASE).touch()
    with pytest.raises(MissingInputError, match="has no search yet"):
        read_store(tmp_path)


FACTS = {"spec": "x", "score": "mlm"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A search with one trial, in a folder whose name means something in addresses."""
    folder = tmp_path_factory.mktemp("stored") / "a?x=1 b%41c #c"
    store = open_store(folder, GOAL, FACTS)
    with store.taken(Drawing(space("dropout={0..0.3}"), 1).next) as trial:
        trial.set_user_attr("settings", [])
        store.study.tell(trial, 0.5)
    return folder


def test_a_search_stays_in_a_folder_of_any_name(stored):
    assert (stored / DATABASE).is_file()
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]
    assert [trial.score for trial in read_outcome(stored).trials] == [0.5]


def test_a_signal_within_a_statement_shows_no_traceback(stored, capsys):
    read_store(stored)
    logging.getLogger("sqlalchemy.pool.impl.QueuePool").error("Error closing cursor")
    assert capsys.readouterr().err == ""


def test_a_damaged_store_is_said_to_be_one(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"what is this\n" * 999)
    with pytest.raises(DataError, match=r"sweep.db is damaged"):
        read_outcome(tmp_path)


@pytest.mark.parametrize(
    "said", ["database or disk is full", "disk I/O error", "attempt to write a readonly database"]
)
def test_a_place_that_takes_no_more_is_said_to_be_one(tmp_path, said):
    with pytest.raises(CannotWriteError, match=said) as caught, reading_store(tmp_path):
        raise sqlite3.OperationalError(said)
    assert "the same command goes on" in caught.value.help
