"""``steps=equal(...)``: every point of a grid has the budget, to the step, as estimates count."""

import pytest

from bertc import api
from bertc.base.diagnostics import SpecError
from bertc.check.equal import most_steps
from bertc.cost import as_table, estimate
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
    seconds = estimate(resolved, "a100").time.seconds_total
    assert 7200 * (1 - 2 / resolved.steps) < seconds <= 7200


def test_one_that_is_extended_and_one_written_back(tmp_path):
    (tmp_path / "base.bertc").write_text(SMALL + "layers=2 steps=equal(1e13 flops)")
    (tmp_path / "more.bertc").write_text('extends "base.bertc"  layers={2, 4}')
    two, four = api.points(str(tmp_path / "more.bertc"))
    assert two.steps > 1.2 * four.steps
    assert flops(four) <= 1e13
    (program,) = load("steps=equal(1.5h)")
    assert "equal(1.5 h)" in show(program)
    assert load(show(program)) == [program]


def test_the_table_of_equal_points_has_their_steps_and_a_wrong_budget_is_told_once():
    points = api.points(SMALL + "layers={2, 5} steps=equal(flops, steps=1000)")
    head, *rows = as_table([estimate(each) for each in points]).splitlines()[:3]
    assert "steps" in head
    assert all(f" {point.steps:,} " in row for point, row in zip(points, rows, strict=True))
    with pytest.raises(SpecError) as caught:
        api.points("steps=equal(flop)")
    (found,) = caught.value.diagnostics
    assert found.message == "`budget` of `steps` cannot be `flop`"
    assert found.notes[0].message == "it is one of: flops, time, a number of flops, a number of h"
    assert api.points(f"layers=1 steps=equal({found.help})")


def test_most_steps_of_uneven_figures():
    for most in (0.5, 1.0, 99.5, 12_345.0):
        found = most_steps(lambda n: n + n // 10, most)
        exact = max(n for n in range(13_000) if n + n // 10 <= most)
        assert found == max(1, exact)
