import math

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

RATES = {
    # BERT's decay has run since step 0: the rate jumps down by 1% where warm-up ends.
    "bert": (
        1_000_000, Adam(lr=1e-4, warmup=10_000, schedule=Polynomial(decay_from="start")),
        {0: 0.0, 1: 1e-8, 5_000: 5e-5, 9_999: 9.999e-5, 10_000: 9.9e-5, 500_000: 5e-5,
         999_999: 1e-10},
    ),
    # ELECTRA's decays within warm-up too.
    "electra": (
        1_000_000, Adam(lr=2e-4, warmup=10_000, schedule=Polynomial(decay_from="throughout")),
        {0: 0.0, 1: 2e-8 * (1 - 1e-6), 5_000: 1e-4 * 0.995, 10_000: 2e-4 * 0.99, 999_999: 2e-10},
    ),
    "from warm-up": (
        100, Adam(lr=1.0, warmup=12), {0: 0.0, 6: 0.5, 12: 1.0, 56: 0.5, 99: 1 / 88},
    ),
    # Past the end the rate stays.
    "power and end": (
        10, Adam(lr=2.0, warmup=0, schedule=Polynomial(power=2, end=0.1)),
        {0: 2.0, 5: 2 * (0.1 + 0.9 * 0.25), 10: 0.2, 11: 0.2},
    ),
    "cosine": (
        120, Adam(lr=1.0, warmup=20, schedule=Cosine(end=0.1)),
        {10: 0.5, 20: 1, 70: 0.55, 120: 0.1},
    ),
    # Transformer-XL, train.py: CosineAnnealingLR gets the number of the step.
    "cosine from the start": (
        120, Adam(lr=1.0, warmup=20, schedule=Cosine(decay_from="start")),
        {10: 0.5, 40: 0.75, 60: 0.5, 120: 0},
    ),
    # GPT-BERT, utils.py: the last step of ten has a tenth of the final rate.
    "cool-down": (
        120, Adam(lr=1.0, warmup=20, schedule=Cosine(end=0.1, cooldown=0.1)),
        {20: 1, 70: 0.55, 107: 0.1 + 0.45 * (1 + math.cos(0.87 * math.pi)), 108: 0.1, 114: 0.05,
         119: 0.1 / 12, 121: 0},
    ),
    "constant": (
        9, Adam(lr=0.3, warmup=2, schedule=ConstantRate()), {0: 0, 1: 0.15, 2: 0.3, 3: 0.3},
    ),
    "inverse square root": (
        100, Adam(lr=1.0, warmup=16, schedule=InverseSqrt()), {4: 0.25, 16: 1, 64: 0.5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_rates_of_steps(tiny, name):
    steps, optimizer, rates = RATES[name]
    stage = tiny(optimizer=optimizer, steps=steps).stages[0]
    assert {at: rate(stage, at) for at in rates} == pytest.approx(rates, rel=1e-11)


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
