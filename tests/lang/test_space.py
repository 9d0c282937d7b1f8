"""Ranges and lists as a space: what may be drawn, what a point is, where both ends are checked."""

import pytest

from bertc import api
from bertc.base.diagnostics import SpecError
from bertc.lang import show
from bertc.lang.space import Interval, Options, SpacePoint, space

SPEC = """
layers={2..12} dropout={0..1} share={none, all}
optimizer=adamw(lr={1e-5..1e-3:log}, warmup={1%..10%})
objective={mlm(p={10%..40%}), sop+mlm}
stage "a" { seq={64, 128} steps={10..1000:log} }
"""


def middle(dimension):
    match dimension:
        case Interval(low=low, high=high):
            return (low + high) / 2
        case Options(texts=texts):
            return texts[-1]


def test_dimensions_are_named_and_typed_by_what_holds_them():
    assert list(space(SPEC).dimensions.values()) == [
        Interval("layers", 2, 12, False, True),
        Interval("dropout", 0, 1, False, False),
        Options("share", ("none", "all")),
        Interval("optimizer.lr", 1e-5, 1e-3, True, False),
        Interval("optimizer.warmup", 0.01, 0.1, False, False),
        Options("objective", ("mlm(p={10%..40%})", "sop+mlm")),
        Interval("objective.p", 0.1, 0.4, False, False),
        Options("a.seq", ("64", "128")),
        Interval("a.steps", 10, 1000, True, True),
    ]


def test_a_point_is_a_program_and_its_settings_as_written():
    drawn = []
    point = space(SPEC).point(lambda each: drawn.append(each.name) or middle(each))
    assert point.settings == (
        "layers=7",
        "dropout=0.5",
        "share=all",
        "optimizer=adamw(lr=0.000505, warmup=0.055)",
        "objective=sop + mlm",
        "a.seq=128",
        "a.steps=505",
    )
    assert "objective.p" not in drawn, "it stands in a choice that was not made"
    assert api.resolve(point.program).encoder.depth == 7
    assert api.resolve(show(point.program)).stages == api.resolve(point.program).stages


def test_overrides_replace_and_add_dimensions():
    found = space("layers={2..4} batch={8, 16}", ["layers=3", "optimizer=adam({1e-4..1e-3})"])
    assert found.names == ("batch", "optimizer")
    point: SpacePoint = found.point(middle)
    assert point.settings == ("batch=16", "optimizer=adam(0.00055)")


def test_check_looks_at_both_ends_and_nothing_else_takes_a_range():
    assert api.check("layers={2..12} dropout={0..0.3}") == 4
    with pytest.raises(SpecError) as caught:
        api.check("heads={8..10}")
    assert [each.code for each in caught.value.diagnostics] == ["E201"]
    with pytest.raises(SpecError) as caught:
        api.estimate("layers={2..12}")
    assert [each.code for each in caught.value.diagnostics] == ["E116"]


@pytest.mark.parametrize(
    "wrong", ["{12..2}", "{2..2}", "{2..4:lin}", "2..4", "{0..4:log}", "{2..4kb}"]
)
def test_ranges_that_are_none(wrong):
    with pytest.raises(SpecError) as caught:
        space(f"layers={wrong}")
    assert {each.code for each in caught.value.diagnostics} <= {"E117", "E010", "E109"}
