"""``bertc forecast``: a law has the numbers that made its losses, and a ladder goes on."""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from math import inf

import pytest

import bertc
from bertc import DataError, UsageError
from bertc.lab.fit.candidate import budget
from bertc.lab.forecast import forecasting, ladder
from bertc.lab.forecast.forecasting import forecast
from bertc.lab.forecast.ladder import plan_ladder, refuse_others
from bertc.lab.forecast.law import Law, Rung, fit, worth
from bertc.lab.forecast.sealed import Forecast, read_law
from bertc.lab.report.report import report_page
from bertc.lab_api import points, programs

TRUE = Law(1.5, 40.0, 0.34, 300.0, 0.32)
SPEC = "layers=2 hidden=64 heads=4 vocab=wordpiece(300) data=files('farm.txt', sentences=lines) "
SPEC += "seq=16 batch=4 steps=60 objective=mlm dropout=0 format=blocks holdout=20% "
SPEC += "optimizer=adamw(2e-3, warmup=6) "


def rungs_of(law: Law) -> list[Rung]:
    return [
        Rung(f"{n}-{d}", 2 * n, n, d, 6 * n * d, 1.0, law.loss(2 * n, n, d))
        for n, d in product((30_000, 120_000, 270_000), (5e5, 1e6, 2e6))
    ]


@pytest.mark.parametrize("changed", [{}, {"floor": 0.0}, {"with_tables": True}, {"of_size": 0.0}])
def test_a_law_has_the_numbers_that_made_its_losses(changed):
    law = replace(TRUE, **changed)
    fitted = fit(rungs_of(law), inf, with_tables=law.with_tables)
    for place in ((6e5, 3e5, 4e6), (2e6, 1e6, 2e7)):
        assert fitted.loss(*place) == pytest.approx(law.loss(*place), rel=2e-3)


def test_one_bad_rung_moves_a_law_little():
    rungs, place = rungs_of(TRUE), (1e6, 5e5, 8e6)
    rungs[4] = replace(rungs[4], loss=1.3 * rungs[4].loss)
    fitted = fit(rungs, inf, with_tables=False)
    assert fitted.loss(*place) == pytest.approx(TRUE.loss(*place), rel=0.01)


def test_repeated_tokens_are_worth_less_and_tokens_for_a_loss_reach_it():
    assert worth(500, 1000) == 500
    assert worth(2000, 1000) == pytest.approx(1000 + 1000 * 0.9682, rel=1e-3)
    assert worth(1e9, 1000) == pytest.approx(1000 * 16.39)
    law = replace(TRUE, pass_tokens=1e6)
    assert law.loss(2e6, 1e6, law.tokens_for(2e6, 1e6, 4.5)) == pytest.approx(4.5)
    assert law.tokens_for(2e6, 1e6, 1.4) == inf


WIDE = "extends quickstart hidden=256 ffn=704 initializer=normal(0.06) steps=1150"


def planned(spec, seconds=None):
    (program,) = programs(spec)
    refuse_others(program, points(program)[0])
    return plan_ladder(program, points(program)[0], "cpu", seconds)


def test_rungs_are_narrower_and_shorter_and_learn_at_rates_that_transfer():
    rungs = planned(f"{WIDE} optimizer=adamw(1e-3, warmup=115)", 200)
    assert {rung.resolved.encoder.hidden for rung in rungs} == {64, 128, 192}
    narrow = next(rung.resolved for rung in rungs if rung.resolved.encoder.hidden == 64)
    (stage,) = narrow.stages
    assert stage.optimizer.lr == pytest.approx(2e-3)
    assert stage.warmup_steps == pytest.approx(stage.steps / 10, abs=1)
    assert narrow.encoder.initializer.std == pytest.approx(0.12)
    assert {w.ffn for w in narrow.encoder.layers} == {176}
    assert sum(rung.seconds for rung in rungs) == pytest.approx(200, rel=0.01)
    assert Counter(rung.name.partition("-")[0] for rung in rungs) == {
        "w64": 3, "w128": 2, "w192": 1,
    }  # fmt: skip


def test_stages_stay_in_proportion():
    for rung in planned("bert-base"):
        first, second = rung.resolved.stages
        assert first.steps / second.steps == pytest.approx(9, rel=0.01)


@pytest.mark.parametrize(("spec", "seconds", "message"), [
    (WIDE, 1.0, "fewer than 100 steps"),
    ("extends quickstart heads=2", None, "heads=4"),
    (SPEC.replace("heads=4", "heads=1"), None, "more heads"),
    (f"{SPEC} init='run'", None, "random weights at first"),
    (SPEC.replace("60", "1h").replace("=6)", "=6%)"), None, "steps=100k"),
    (f'{SPEC} stage "a" {{layers=1 steps=9}} stage "b" {{steps=9}}', None, "changes the network"),
    (SPEC.replace("heads=4", "heads=[2, 4] head_dim=16"), None, "the same heads"),
])  # fmt: skip
def test_a_spec_without_a_ladder_is_refused(spec, seconds, message):
    error = pytest.raises(UsageError, planned, spec, seconds)
    assert message in f"{error.value.message} {error.value.help}"
    if seconds:
        assert planned(spec, budget("time", error.value.help.removeprefix("--time ")).most)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a ladder of six runs of 4 to 16 steps, and what it said."""
    folder = tmp_path_factory.mktemp("ladder")
    words = "hens ducks geese cackle quack hiss the old red barn pond".split()  # noqa: SIM905
    text = (" ".join(words[(n * k) % 11] for k in range(1, 9)) for n in range(400))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(ladder, "FEWEST_STEPS", 4)
        patch.setattr(forecasting, "LEARNED", 9.0)
        (folder / "farm.txt").write_text("\n".join(text))
        said: list[str] = []
        forecast(SPEC, (), None, folder / "l", None, "cpu", folder / "run", said.append)
        yield folder, said


def test_a_ladder_goes_on_and_a_rung_that_fails_is_left_out(made, monkeypatch):
    folder, said = made
    assert [line for line in said if line.startswith("rung")] == [
        f"rung {n} of 6: {rung.name}" for n, rung in enumerate(planned(SPEC), 1)
    ]
    before = read_law(folder / "l" / "law.json")
    assert len(before.rungs) == 6
    trained, train = list[str](), bertc.train

    def fails(resolved, path, **more):
        trained.append(path.name)
        if path.name == "w16-s4":
            raise DataError("torn")
        return train(resolved, path, **more)

    monkeypatch.setattr(forecasting.bertc, "train", fails)
    monkeypatch.setattr(forecasting, "LEARNED", 0.5)
    with pytest.raises(UsageError, match="0 rungs of"):
        forecast(SPEC, (), None, folder / "l", None, "cpu", None, said.append)
    assert sum("is still near that of token frequencies" in line for line in said) == 6
    monkeypatch.setattr(forecasting, "LEARNED", 9.0)
    again, _ = forecast(SPEC, (), None, folder / "l", None, "cpu", None, said.append)
    assert not trained
    assert again == before
    with pytest.raises(UsageError, match="w16-s4 has other settings"):
        forecast(SPEC.replace("2e-3", "1e-3"), (), None, folder / "l", None, "cpu", None, print)
    (folder / "l" / "w16-s4" / "digests.json").unlink()
    fewer, _ = forecast(SPEC, (), None, folder / "l", None, "cpu", None, said.append)
    assert trained == ["w16-s4"]
    assert len(fewer.rungs) == 5
    assert said[-6:].count("rung w16-s4 failed and is left out: torn") == 1


def test_the_run_has_the_forecast_before_its_first_step(made):
    folder, _ = made
    bertc.train(SPEC, folder / "run")
    page = report_page([folder / "run"])
    assert "Sealed: its digest was noted at the first step." in page
    facts = json.loads((folder / "run" / "forecast.json").read_text())
    assert f"{facts['expected']['loss']:.3f} (" in page
    with pytest.raises(UsageError, match="made before the run"):
        forecast(SPEC, (), None, folder / "l", None, "cpu", folder / "run", print)
    facts["expected"]["loss"] = 1.0
    (folder / "run" / "forecast.json").write_text(json.dumps(facts))
    assert "Not sealed" in report_page([folder / "run"])


def law_file(folder, spec=SPEC):
    """A law of the true numbers, for a spec."""
    (resolved,) = points(spec)
    path = folder / "law.json"
    made = Forecast.of(resolved, rungs_of(TRUE))
    for floor in (0.0, 1.5):
        table = replace(made, law=replace(TRUE, floor=floor)).as_table()
        assert ("Without a floor" in table) == (floor == 0)
    path.write_text(made.as_json())
    return path


def test_an_estimate_has_the_loss_and_json_its_interval(made, tmp_path, call):
    path = str(law_file(tmp_path))
    code, out, _ = call("estimate", SPEC, "--law", path, "--device", "cpu")
    assert code == 0
    assert "expected" in out.partition("loss")[2]
    facts = json.loads(call("estimate", SPEC, "--law", path, "--json")[1])["expected"]
    assert facts["low"] <= facts["loss"] <= facts["high"]
    assert call("estimate", SPEC, "--set", "vocab=wordpiece(400)", "--law", path)[0] == 2
    facts = json.loads(law_file(tmp_path).read_text())
    for wrong in ({}, facts | {"draws": []}, facts | {"tested": "a"}, facts | {"schema": 9}):
        (tmp_path / "law.json").write_text(json.dumps(wrong))
        assert call("estimate", SPEC, "--law", path)[0] == 65


def test_fit_takes_the_lowest_loss_or_the_least_time_to_one(made, tmp_path, call):
    path = law_file(tmp_path)
    spec = SPEC.replace("hidden=64 heads=4", "hidden={32, 64, 128, 256} heads=2")
    spec = spec.replace("steps=60", "steps=?")
    told = json.loads(call("fit", spec, "--flops", "1e13", "--law", str(path), "--json")[1])
    losses = [one["expected"]["loss"] for one in told["candidates"]]
    assert losses[0] == min(losses)
    narrow = next(one["spec"] for one in told["candidates"] if "hidden = 32" in one["spec"])
    assert f"lr={2e-3 * 2**0.5}" in narrow  # as those of the ladder
    assert len(losses) == 4
    best = json.loads(call("fit", spec, "--loss", f"{losses[0]}", "--law", str(path), "--json")[1])[
        "candidates"
    ]
    assert best[0]["time"] == min(one["time"] for one in best)
    assert all(one["expected"]["loss"] <= losses[0] + 1e-9 for one in best)
    assert "<- the spec" in call("fit", spec, "--flops", "1e13", "--law", str(path))[2]
    assert "--law FILE" in call("fit", spec, "--loss", "3")[2]
