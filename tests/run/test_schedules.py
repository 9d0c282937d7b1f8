import pytest

from bertc.cost.planning.schedules import rate
from bertc.ir.learning.optimizer import (
    Adam,
    ConstantRate,
    Cosine,
    InverseSqrt,
    Polynomial,
    WarmupStableDecay,
)

BERT = Adam(lr=1e-4, warmup=10_000, schedule=Polynomial(decay_from="start"))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.0),
        (1, 1e-8),
        (5_000, 5e-5),
        (9_999, 9.999e-5),
        # the decay has run since step 0, so the rate jumps down by 1% where warm-up ends
        (10_000, 9.9e-5),
        (500_000, 5e-5),
        (999_999, 1e-10),
    ],
)
def test_bert_jumps_down_at_the_end_of_warm_up(tiny, step, expected):
    stage = tiny(optimizer=BERT, steps=1_000_000).stages[0]
    assert rate(stage, step) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.0),
        (1, 2e-8 * (1 - 1e-6)),
        (5_000, 1e-4 * 0.995),
        (10_000, 2e-4 * 0.99),
        (1e6 - 1, 2e-10),
    ],
)
def test_electra_decays_within_warm_up_too(tiny, step, expected):
    optimizer = Adam(lr=2e-4, warmup=10_000, schedule=Polynomial(decay_from="throughout"))
    stage = tiny(optimizer=optimizer, steps=1_000_000).stages[0]
    assert rate(stage, int(step)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.0), (6, 0.5), (12, 1.0), (56, 0.5), (99, 1 / 88)]
)
def test_decay_from_warm_up_is_continuous(tiny, step, expected):
    stage = tiny(optimizer=Adam(lr=1.0, warmup=12), steps=100).stages[0]
    assert rate(stage, step) == pytest.approx(expected)


def test_polynomial_power_and_end(tiny):
    optimizer = Adam(lr=2.0, warmup=0, schedule=Polynomial(power=2, end=0.1))
    stage = tiny(optimizer=optimizer, steps=10).stages[0]
    assert rate(stage, 0) == 2.0
    assert rate(stage, 5) == pytest.approx(2 * (0.1 + 0.9 * 0.25))
    assert rate(stage, 10) == pytest.approx(0.2)
    assert rate(stage, 11) == pytest.approx(0.2), "past the end the rate stays"


def test_cosine(tiny):
    stage = tiny(optimizer=Adam(lr=1.0, warmup=20, schedule=Cosine(end=0.1)), steps=120).stages[0]
    assert [rate(stage, step) for step in (10, 20, 70, 120)] == pytest.approx([0.5, 1, 0.55, 0.1])


def test_a_cosine_that_began_with_the_first_step_jumps_down_where_warm_up_ends(tiny):
    """Transformer-XL, train.py: CosineAnnealingLR is told the number of the step."""
    schedule = Cosine(decay_from="start")
    stage = tiny(optimizer=Adam(lr=1.0, warmup=20, schedule=schedule), steps=120).stages[0]
    assert [rate(stage, step) for step in (10, 40, 60, 120)] == pytest.approx([0.5, 0.75, 0.5, 0])


def test_a_stage_may_end_above_zero_and_before_its_schedule(tiny):
    """The three rates of StackingBERT's reproduce_bert.sh."""
    plans = {
        "three": (50_000, Adam(lr=8e-4, warmup=10_000, schedule=Polynomial(end_lr=5.5e-4))),
        "six": (70_000, Adam(lr=5.5e-4, warmup=1, schedule=Polynomial(end_lr=3e-4))),
        "twelve": (280_000, Adam(lr=3e-4, warmup=1, schedule=Polynomial(over=800_000))),
    }
    stages = {name: {"steps": n, "optimizer": rule} for name, (n, rule) in plans.items()}
    three, six, twelve = tiny(stages=stages).stages
    assert [rate(three, step) for step in (5_000, 10_000, 50_000)] == pytest.approx(
        [4e-4, 8e-4, 5.5e-4]
    )
    assert [rate(six, step) for step in (50_001, 120_000)] == pytest.approx([5.5e-4, 3e-4])
    assert [rate(twelve, step) for step in (120_001, 400_000)] == pytest.approx(
        [3e-4, 1.95e-4], rel=2e-6
    )
    cosine = tiny(optimizer=Adam(lr=1.0, warmup=0, schedule=Cosine(end_lr=0.2, over=40)), steps=20)
    assert rate(cosine.stages[0], 20) == pytest.approx(0.6)


def test_constant(tiny):
    stage = tiny(optimizer=Adam(lr=0.3, warmup=2, schedule=ConstantRate()), steps=9).stages[0]
    assert [rate(stage, step) for step in range(4)] == pytest.approx([0, 0.15, 0.3, 0.3])


def test_inverse_square_root(tiny):
    optimizer = Adam(lr=1.0, warmup=16, schedule=InverseSqrt())
    stage = tiny(optimizer=optimizer, steps=100).stages[0]
    assert [rate(stage, step) for step in (4, 16, 64)] == pytest.approx([0.25, 1, 0.5])


@pytest.mark.parametrize(
    ("schedule", "quarter", "half"),
    [
        (WarmupStableDecay(end=0.001), 0.5005, 0.001 + 0.999 * (1 - 0.5**0.5)),
        (WarmupStableDecay(end=0.5), 0.75, 1 - 0.5 * 0.5**0.5),
        (WarmupStableDecay(decay=20, shape="linear", end=0.04), 0.76, 0.52),
        (WarmupStableDecay(shape="cosine"), (1 + 0.5**0.5) / 2, 0.5),
    ],
)
def test_the_rate_is_stable_until_the_last_steps(tiny, schedule, quarter, half):
    """ModernBERT, warmup_stable_decay.py: one_minus_sqrt(.25) to .001 is .5005."""
    stage = tiny(optimizer=Adam(lr=1.0, warmup=10, schedule=schedule), steps=100).stages[0]
    assert [rate(stage, step) for step in (0, 5, 10, 79, 80)] == pytest.approx([0, 0.5, 1, 1, 1])
    assert [rate(stage, step) for step in (85, 90, 100, 200)] == pytest.approx(
        [quarter, half, schedule.end, schedule.end]
    )


def test_before_its_decay_the_rate_of_a_longer_run_is_the_same(tiny):
    optimizer = Adam(lr=1.0, warmup=3, schedule=WarmupStableDecay(decay=10))
    short, long = (tiny(optimizer=optimizer, steps=steps).stages[0] for steps in (20, 1000))
    assert [rate(short, step) for step in range(11)] == [rate(long, step) for step in range(11)]
    assert rate(tiny(optimizer=Adam(schedule=WarmupStableDecay(decay=0))).stages[0], 99) == 1e-4


def test_one_schedule_spans_the_stages_unless_one_brings_its_own(tiny):
    shared = tiny(optimizer=Adam(lr=1.0, warmup=0), stages={"a": {"steps": 30}, "b": {"steps": 10}})
    assert rate(shared.stages[1], 30) == pytest.approx(0.25)
    own = tiny(
        optimizer=Adam(lr=1.0, warmup=0),
        stages={"a": {"steps": 30}, "b": {"steps": 10, "optimizer": Adam(lr=4.0, warmup=2)}},
    )
    assert [rate(own.stages[1], step) for step in (30, 31, 32, 36)] == pytest.approx([0, 2, 4, 2])
