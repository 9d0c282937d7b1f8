"""Lengths in tokens become steps; batches that rise become stages."""

from pathlib import Path

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import SpecError
from bertc.cli.emit import emit
from bertc.cost.planning.schedules import rate
from bertc.ir.learning.optimizer import Adam, WarmupStableDecay
from bertc.ir.methods.average import Ema
from bertc.lang import load
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.show import show_value

MODERNBERT = {768: 3333333300, 1536: 10e9, 2304: 20e9, 3072: 33333333000, 3840: 50e9}
"""Rows of a batch, and tokens after which the next size begins (modernbert-base-pretrain.yaml)."""
LARGE = {
    448: 181818180, 896: 545454550, 1344: 1090909100, 1792: 1818181800, 2240: 2727272700,
    2688: 3818181800, 3136: 5090909100, 3584: 6545454500, 4032: 8181818200, 4480: 10e9,
}  # fmt: skip


def test_tokens_are_those_of_batches():
    optimizer = "optimizer=adamw(warmup=10M tokens, schedule=wsd(20M tokens))"
    (stage,) = resolve(f"batch=32 seq=128 steps=100M tokens {optimizer}").stages
    assert (stage.steps, stage.warmup_steps) == (round(1e8 / 4096), round(1e7 / 4096))
    assert stage.optimizer.decay_steps(stage.steps) == round(2e7 / 4096)


@pytest.mark.parametrize(
    ("first", "batch", "over", "ends"), [(768, 4608, "50G", MODERNBERT), (448, 4928, "10G", LARGE)]
)
def test_batches_rise_as_modernbert_s(first, batch, over, ends):
    """A size ends with the step that reaches its tokens, or the one beside it."""
    *rising, whole = resolve(
        f"batch={batch} batch_warmup=rising({first}, {over} tokens) seq=1024 steps=1.719T tokens"
    ).stages
    tokens = 0
    for stage, (rows, end) in zip(rising, ends.items(), strict=True):
        assert stage.batch == rows
        tokens += stage.steps * stage.tokens_per_step
        assert tokens == pytest.approx(end, abs=1.5 * stage.tokens_per_step)
    assert tokens + whole.steps * whole.tokens_per_step == pytest.approx(1.719e12, abs=2**23)
    assert {stage.schedule_steps for stage in (*rising, whole)} == {whole.first_step + whole.steps}


def test_a_size_reads_on_where_the_one_before_ended():
    stages = resolve("batch=10 batch_warmup=rising(3, 9) steps=20").stages
    assert [(s.name, s.batch, s.steps) for s in stages] == [
        ("main-3", 3, 3), ("main-6", 6, 3), ("main-9", 9, 3), ("main-10", 10, 11),
    ]  # fmt: skip
    read = 0
    for stage in stages:
        assert 0 <= stage.first_batch * stage.batch - read < stage.batch, "none is read twice"
        read = (stage.first_batch + stage.steps) * stage.batch


def test_an_average_is_of_its_stage_and_counts_its_tokens():
    a, b, c = resolve(
        'batch=8 average=ema(51200 tokens) stage "a" { seq=64 steps=100 } '
        'stage "b" { seq=128 steps=50 average=none } stage "c" { seq=256 steps=90 batch=16 }'
    ).stages
    assert (a.methods, b.methods) == ((Ema(half_life=100, end=100),), ())
    assert c.average == Ema(half_life=12, begin=150, end=240)
    rising = "batch=8 batch_warmup=rising(2, 9) steps=50"
    pieces = resolve(f"{rising} average=ema(20%)").stages
    assert len(pieces) == 4
    (mean,) = {stage.average for stage in pieces}
    assert (mean.begin, mean.steps) == (0, 10)


def test_a_schedule_over_stages_counts_the_tokens_of_each():
    """Warm-up from the start, the decay back from the end: rows of 64 tokens, then of 256."""
    first, second = resolve(
        "batch=8 optimizer=adamw(lr=1, warmup=61440 tokens, schedule=wsd(409600 tokens)) "
        'stage "a" { seq=64 steps=100 } stage "b" { seq=256 steps=512k tokens }'
    ).stages
    assert second.steps == 250
    # 100 steps of 512 tokens are 51,200; what is left are 5 steps of 2,048.
    assert first.warmup_steps == second.warmup_steps == 105
    assert rate(second, 104) == pytest.approx(104 / 105)
    last = 1 - (199 / 200) ** 0.5
    assert [rate(second, step) for step in (105, 150, 349)] == pytest.approx([1, 1, last])


def test_a_base_in_tokens_is_shortened_in_proportion():
    base = 'batch=8 stage "a" { seq=64 steps=300k tokens } stage "b" { seq=128 steps=200k tokens }'
    in_steps = [s.steps for s in resolve(base, ["steps=78"]).stages]
    assert in_steps == [round(78 * 586 / 781), 78 - round(78 * 586 / 781)]
    in_tokens = [s.steps for s in resolve(base, ["steps=50k tokens"]).stages]
    assert in_tokens == [round(30_000 / 512), round(20_000 / 1024)]


def test_what_does_not_fit_an_inherited_warmup_is_shown_where_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.bertc").write_text("layers=1 batch=256 batch_warmup=rising(64, 10)")
    (found,) = pytest.raises(SpecError, resolve, 'extends "base.bertc" batch=32').value.diagnostics
    assert found.span.text == "batch=32"
    assert str(found.notes[0].span) == "base.bertc:1:20"
    assert resolve(f'extends "base.bertc" batch=32 {found.help}')


@pytest.mark.parametrize(
    "changed", ["steps=50G tokens", "batch=512", "batch=64 steps=20", "steps=9"]
)
def test_a_batch_warmup_that_does_not_fit_is_shortened_and_not_dropped(changed):
    spec = f"extends modernbert-base {changed}"
    (found,) = pytest.raises(SpecError, resolve, spec).value.diagnostics
    first, *later = resolve(f"{spec} {found.help}").stages
    assert bool(later) == (found.help != "batch_warmup=none") == (changed != "steps=9")
    assert not later or later[-1].steps > first.schedule_steps / 2


def test_a_stage_may_mask_less_than_the_one_before_and_evaluations_one_share_throughout():
    """mmBERT: 30%, 15%, then 5% (README)."""
    blocks = (f'stage "{p}" {{ objective=mlm({p}%) }}' for p in (30, 15, 5))
    stages = resolve(f"seq=100 {' '.join(blocks)}").stages
    assert [stage.predictions() for stage in stages] == [30, 15, 5]
    for objective, share in (("mlm(30%)", 0.3), ("mlm(30%, eval_p=15%)", 0.15)):
        (stage,) = resolve(f"objective={objective}").stages
        assert stage.held_out.masked_terms()[0].p == share


def test_all_steps_are_written_unlike_one_step():
    shape = setting_shape("optimizer")
    for text, length, steps in (("wsd(decay=100%)", 1.0, 50), ("wsd(decay=1)", 1, 1)):
        shown = show_value(Adam(warmup=0, schedule=WarmupStableDecay(decay=length)), shape)
        assert shown == f"adamw(warmup=0, schedule={text})"
        (stage,) = resolve(f"steps=50 optimizer={shown}").stages
        assert stage.optimizer.decay_steps(50) == steps


def test_a_task_after_text_has_its_own_batches():
    *text, task = resolve(
        'batch=32 batch_warmup=rising(16, 4) steps=20 stage "a" { seq=64 } '
        'stage "b" { objective=glue(rte, "RTE", examples=99) batch=8 }'
    ).stages
    assert [stage.batch for stage in (*text, task)] == [16, 32, 8]


@pytest.mark.parametrize(("written", "set", "steps"), [
    ("steps=10", "", [6, 4]), ("", "steps=10", [6, 4]), ("steps=7", "steps=10", [6, 4]),
    ("steps=2", "", [1, 1]), ("", "steps=2", [1, 1]), ("steps=1", "", [1, 1]),
    ("", "", [60, 40]),
])  # fmt: skip
def test_steps_outside_stages_are_those_of_the_whole_run(
    written, set, steps, tmp_path, monkeypatch
):
    """In the text of stages, on the command line, and above a base alike."""
    base = "vocab=1k stage 'a' { seq=16 steps=60 } stage 'b' { seq=32 steps=40 }"
    monkeypatch.chdir(tmp_path)
    Path("base.bertc").write_text(base)
    overrides = [set] if set else []
    for spec in (f"{written} {base}", f"extends './base.bertc' {written}"):
        assert [stage.steps for stage in resolve(spec, overrides).stages] == steps, spec
    again = f"extends './base.bertc' {written} stage 'c' {{ seq=16 steps=5 }}"
    assert [stage.steps for stage in resolve(again).stages] == [int(written[6:] or 5)]
    Path("again.bertc").write_text(again)
    (program,) = load("extends './again.bertc'")
    assert [stage.steps for stage in resolve(program).stages] == [int(written[6:] or 5)]
    assert emit("extends './again.bertc'", (), "program").count("steps = ") <= 2
    for short in (resolve("extends bert-base", ["steps=2"]), resolve("extends bert-base steps=2")):
        assert [stage.steps for stage in short.stages] == [1, 1]
