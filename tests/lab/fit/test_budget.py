"""``bertc fit`` finds the best of every candidate; ``steps=equal(...)`` uses up a budget."""

import io
import json
import math
import random
from unittest.mock import Mock

import pytest

from bertc import api
from bertc.api import points, programs, resolve
from bertc.base.diagnostics import SpecError, UsageError
from bertc.check.compiling import most_steps
from bertc.cost import as_table, estimate
from bertc.lab.fit import candidate as fits, fitting as module
from bertc.lab.fit.candidate import Budget, budget
from bertc.lab.fit.fitting import choose
from bertc.lab.fit.sizes import family_of
from bertc.lang import show
from bertc.lang.load import load

SMALL = "hidden=64 heads=2 vocab=wordpiece(1000) seq=64 batch=8 objective=mlm "


def flops(resolved):
    return estimate(resolved).flops.train_total


def test_points_have_the_flops_of_the_first_to_within_a_step():
    first, *others = api.points(SMALL + "layers={2, 5} steps=equal(flops, steps=1000)")
    assert first.steps == 1000
    for point in others:
        assert flops(point) <= flops(first) < flops(point) * (1 + 1 / point.steps)


def test_a_stated_budget_is_used_up_in_stages_too():
    spec = SMALL + 'steps=equal({}) stage "a" {{ steps=90 }} stage "b" {{ seq=128 steps=10 }}'
    (resolved,) = api.points(spec.format("1e14 flops"))
    one = flops(resolved) / resolved.steps
    assert 1e14 - 2 * one < flops(resolved) <= 1e14
    a, b = resolved.stages
    assert a.steps / b.steps == pytest.approx(9, rel=0.01)


@pytest.mark.parametrize("hours", ["2h", "120min", "2 h"])
def test_time_is_that_of_the_named_device(hours):
    (resolved,) = api.points(SMALL + f"layers=2 steps=equal({hours}, device=a100)")
    assert 7200 * (1 - 2 / resolved.steps) < estimate(resolved, "a100").time.seconds_total <= 7200


def test_one_that_is_extended_and_one_written_back(tmp_path):
    (tmp_path / "base.bertc").write_text(SMALL + "layers=2 steps=equal(1e13 flops)")
    (tmp_path / "more.bertc").write_text('extends "base.bertc"  layers={2, 4}')
    two, four = api.points(str(tmp_path / "more.bertc"))
    assert two.steps > 1.2 * four.steps
    assert flops(four) <= 1e13
    (program,) = load("steps=equal(1.5h)")
    assert "equal(1.5 h)" in show(program)
    assert load(show(program)) == [program]


def test_the_table_of_equal_points_has_their_steps_and_a_wrong_budget_is_reported_once():
    points = api.points(SMALL + "layers={2, 5} steps=equal(flops, steps=1000)")
    head, *rows = as_table([estimate(each) for each in points]).splitlines()[:3]
    assert "steps" in head
    assert all(f" {point.steps:,} " in row for point, row in zip(points, rows, strict=True))
    (found,) = pytest.raises(SpecError, api.points, "steps=equal(flop)").value.diagnostics
    assert found.message == "`budget` of `steps` cannot be `flop`"
    assert found.notes[0].message == "it is one of: flops, time, a number of flops, a number of h"
    assert api.points(f"layers=1 steps=equal({found.help})")


def test_most_steps_of_uneven_figures():
    for most in (0.5, 1.0, 99.5, 12_345.0):
        found = most_steps(lambda n: n + n // 10, most)
        assert found == max(1, max(n for n in range(13_000) if n + n // 10 <= most))


LISTS = "layers={1, 2, 4} hidden={64, 128} vocab=1k seq=64 steps=200"


def test_the_best_of_all_candidates_or_the_nearest_is_found():
    costs = {}
    for shape in (f"layers={l} hidden={h}" for l in (1, 2, 4) for h in (64, 128)):
        printed = estimate(resolve(f"{shape} vocab=1k seq=64 steps=200"))
        flops, seconds = printed.flops.train_total, printed.time.seconds_total
        costs[shape] = {"params": printed.parameters.total, "flops": flops, "time": seconds}
    draw, fitting = random.Random(3), 0
    for _ in range(20):
        kinds = draw.sample(["params", "flops", "time"], 2)
        some = [draw.choice([*costs.values()])[kind] for kind in kinds]
        mosts = [figure * draw.uniform(0.4, 1.6) for figure in some]
        budgets = [Budget(*each) for each in zip(kinds, mosts, strict=True)]
        choice = choose(LISTS, budgets)
        shares = [tuple(each[b.kind] / b.most for b in budgets) for each in costs.values()]
        within = [each for each in shares if max(each) <= 1]
        assert (choice.within, choice.tried) == (len(within), len(costs))
        best = choice.candidates[0]
        chosen = best.shares(budgets)
        assert chosen == max(within) if within else max(chosen) == min(map(max, shares))
        fitting += choice.fits
        assert dict(best.figures).items() <= costs[best.program.name].items()
    assert 0 < fitting < 20


def test_micro_batches_fill_the_given_memory(call):
    """By default they fill a device of 140 GiB."""
    spec, most = "extends bert-base layers={1, 2}", Budget("memory", 5 * 2**30)
    choice = choose(spec, [most])
    assert choice.within == 2
    assert [each.resolved.encoder.depth for each in choice.candidates] == [2, 1]
    assert "the first has the most parameters" in choice.as_table()
    first = choice.candidates[0]
    assert 0.5 * most.most < first.figures["memory"] <= most.most
    one, two = json.loads(call("estimate", "--json", "--memory", "5GiB", spec)[1])["points"]
    assert two["memory"]["peak_bytes"] == first.figures["memory"]
    assert one["memory"]["microbatch"] > two["memory"]["microbatch"] > 1
    assert "help: " in choose(spec, [Budget("memory", 2**28)]).as_table()


def test_steps_use_up_what_they_may():
    spent = Budget("flops", 5e12)
    choice = choose("layers=2 hidden={64, 128} vocab=1k seq=64 batch=8 steps=?", [spent])
    for candidate in choice.candidates:
        steps = candidate.resolved.steps
        (longer,) = points(show(candidate.program), [f"steps={steps + 1}"])
        assert candidate.figures["flops"] <= spent.most < estimate(longer).flops.train_total
        (again,) = points(show(candidate.program))
        assert estimate(again).flops.train_total == candidate.figures["flops"]


def test_of_sizes_that_tie_the_one_is_taken_that_is_trained_as_its_family(monkeypatch):
    monkeypatch.setattr(fits, "estimate", counted := Mock(side_effect=estimate))
    spec = "extends modernbert layers=? hidden=? steps=? vocab=bpe(32k)"
    choice = choose(spec, [budget("time", "3d")], device="a100-40")
    assert counted.call_count < 100, "of hundreds of sizes a part is estimated"
    assert choice.family.name == "modernbert-base"
    ratios = [one.tokens_per_parameter for one in choice.candidates]
    wanted = choice.family.tokens_per_parameter
    assert 1.719e12 / 150e6 < wanted < 1.719e12 / 149e6
    assert ratios[0] == min(ratios, key=lambda ratio: abs(math.log(ratio / wanted)))
    assert wanted / 2 < ratios[0] < wanted * 2
    sizes = sorted(choice.candidates, key=lambda one: one.parameters)
    tokens = [one.tokens_per_parameter * one.parameters for one in sizes]
    assert tokens == sorted(tokens, reverse=True)
    assert all(0.99 < share <= 1 for one in sizes for share in one.shares(choice.budgets))
    table = choice.as_table()
    assert "199 shapes tie" in table
    (line,) = (line for line in table.splitlines() if line.endswith("<- the spec"))
    assert choice.candidates[0].program.name in line
    within = choose(spec, [budget("params", "14M"), budget("time", "3d")])
    assert within.family is None
    counts = [one.parameters for one in within.candidates]
    assert counts == sorted(counts, reverse=True)
    assert 13e6 < counts[0] <= 14e6


@pytest.mark.parametrize(("spec", "family"), [
    ("layers=2", "bert-base"), ("extends ltg", "ltg-bert"), ("extends ettin-68m", "ettin-68m"),
    ("extends modernbert", "modernbert-base"), ("extends xlnet hidden=64", "xlnet-base"),
])  # fmt: skip
def test_a_family_is_the_spec_that_is_extended_or_the_longest_reader(spec, family):
    (program,) = programs(spec)
    assert family_of(program).name == family


def test_a_handful_of_steps_is_remarked_on():
    spec = "layers={1, 2} hidden=64 vocab=1k seq=64 batch=8 steps=?"
    tables = [choose(spec, [Budget("flops", most)]).as_table() for most in (1e9, 2e10)]
    few, enough = (table.partition("remark: ")[2] for table in tables)
    assert few.startswith("--flops leave it 12 steps; ")
    assert enough == ""


def test_shapes_that_nobody_trains_are_left_out(monkeypatch):
    monkeypatch.setattr(module, "CANDIDATES", {"layers": (1, 2, 8), "hidden": (64, 256)})
    choice = choose("layers=? hidden=? vocab=1k seq=64 steps=100", [budget("params", "10M")])
    shapes = {(e.hidden, e.depth) for e in (each.resolved.encoder for each in choice.candidates)}
    assert shapes == {(64, 1), (64, 2), (256, 2), (256, 8)}


@pytest.mark.parametrize(("kind", "text", "most"), [
    ("params", "14M", 14e6), ("flops", "1e18", 1e18), ("flops", "3 EFLOP", 3e18),
    ("time", "8h", 28_800), ("memory", "16GiB", 2**34),
])  # fmt: skip
def test_budgets_are_read_with_their_units(kind, text, most):
    assert budget(kind, text) == Budget(kind, most)


@pytest.mark.parametrize(("kind", "text"), [("time", "8"), ("params", "1X"), ("memory", "-1GiB")])
def test_other_units_are_refused_with_one_that_is_read(kind, text):
    option, own = pytest.raises(UsageError, budget, kind, text).value.help.split()
    assert budget(option.removeprefix("--"), own).most > 0


@pytest.mark.parametrize(("spec", "kinds", "message"), [
    (LISTS, [], "no budget"), ("layers=2", ["params"], "nothing is free"),
    ("heads=?", ["params"], "no usual values"),
    ("steps=?", ["params"], "needs a budget that steps spend"),
])  # fmt: skip
def test_what_cannot_be_chosen_is_refused(spec, kinds, message):
    with pytest.raises(UsageError, match=message) as error:
        choose(spec, [Budget(kind, 1e9) for kind in kinds])
    assert error.value.help


def test_without_any_program_the_mistakes_are_those_of_the_first():
    pytest.raises(SpecError, choose, "heads=5 hidden={64, 128}", [Budget("params", 1e9)]).match("E")
    choice = choose("heads=6 hidden={64, 96}", [Budget("params", 1e9)])
    assert (choice.tried, choice.refused) == (1, 1)
    # One that no fewer steps fit ends no search.
    spec = "hidden={64, 128} vocab=1k seq=64 batch=32 batch_warmup=rising(8, 300) steps=?"
    choice = choose(spec, [Budget("flops", 2e12)])
    assert (choice.tried, choice.fits) == (2, False)


@pytest.mark.parametrize(("most", "code"), [("1M", 0), ("1k", 1)])
def test_the_command_prints_the_spec_and_ends_with_1_where_none_fits(most, code, call):
    ended, out, _ = call("fit", LISTS, "--params", most, "--json")
    printed = json.loads(out)
    assert (ended, printed["fits"]) == (code, not code)
    first = printed["candidates"][0]
    assert estimate(resolve(first["spec"])).parameters.total == first["params"]
    ended, out, err = call("fit", LISTS, "--params", most)
    assert (ended, out) == (code, "" if code else first["spec"])
    assert ("fit; the first uses the most" in err) == (not code)


def test_a_file_may_say_what_is_free(tmp_path, monkeypatch):
    file = tmp_path / "mine.bertc"
    file.write_text("layers = 2\nhidden = ?\nvocab = 1k\nseq = 64\nsteps = ?\n")
    monkeypatch.setattr(module, "CANDIDATES", {"hidden": (64, 128)})
    choice = choose(str(file), [Budget("flops", 1e12)])
    assert choice.tried == 2
    assert choice.spec().startswith(f"# {file}\n")
    assert choice.as_table().count(f" {choice.candidates[0].resolved.steps} ") == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert choose("-", [Budget("flops", 1e12)]).tried == 2
