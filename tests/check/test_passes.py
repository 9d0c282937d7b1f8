"""What the passes leave: programs, dimensions, stages, lengths, owner maps, what fits; cores."""

import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bertc import lang
from bertc.api import points, resolve
from bertc.base import cores
from bertc.base.diagnostics import Diagnostics, MachineError, SpecError
from bertc.base.storage.paths import shipped_specs
from bertc.check import passes
from bertc.check.compiling import compile_spec
from bertc.check.passes import complete
from bertc.check.passes.changing.beginning import vectors
from bertc.cli.emit import emit
from bertc.cost.figures import ANY, DeviceBudget
from bertc.cost.planning.plan import Fit, Machine, choose_fit, largest_divisor, plan
from bertc.cost.planning.schedules import rate
from bertc.ir.changing.growth import Interleave, Stack, find_split
from bertc.ir.learning.optimizer import Adam, WarmupStableDecay
from bertc.ir.methods.average import Ema
from bertc.ir.network.bilstm import BiLstmBody
from bertc.ir.program.complete import Complete
from bertc.ir.program.resolved import Resolved, model_weights
from bertc.ir.program.settings import Settings
from bertc.ir.weight_maps.fit import fit, weight_map
from bertc.ir.written import Program
from bertc.lang import load
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.show import show_value


def test_every_setting_gets_a_value_and_an_origin():
    program = complete(Program("empty", {}), Diagnostics()).program
    assert set(program.settings) == set(Settings.model_fields)
    for name, given in program.settings.items():
        assert given.origin.kind in ("default", "derived"), name
        assert given.origin.source, name
    Settings(**{name: given.value for name, given in program.settings.items()})


def test_rows_of_translations_are_padded_whatever_their_format():
    text = 'objective=mlm+tlm data=pairs(en="a", fr="b") format=blocks'
    assert resolve(text).stages[0].padded is True


def test_stages_follow_each_other_under_one_schedule():
    resolved = resolve(
        'optimizer=adamw(warmup=10%) stage "short" { seq=128 steps=900 } '
        'stage "long" { seq=512 steps=100 }'
    )
    short, long = resolved.stages
    assert (short.first_step, long.first_step, resolved.steps) == (0, 900, 1000)
    assert short.warmup_steps == long.warmup_steps == 100
    assert (long.schedule_start, long.schedule_steps) == (0, 1000)
    assert (resolved.stage_at(899), resolved.stage_at(900)) == (short, long)
    assert resolved.encoder.positions.rows == 512
    own = 'stage "a" { steps=10 } stage "b" { steps=20 optimizer=lamb(lr=1e-3, warmup=50%) }'
    _, b = resolve(own).stages
    assert (b.schedule_start, b.schedule_steps, b.warmup_steps) == (10, 20, 10), "its own schedule"


def test_the_command_line_wins_over_stages():
    spec = 'steps=7 stage "a" { steps=10 seq=64 } stage "b" { steps=20 seq=128 }'
    resolved = resolve(spec, ["steps=30", "seq=32"])
    assert [(stage.steps, stage.seq) for stage in resolved.stages] == [(10, 32), (20, 32)]
    mixed = resolve('stage "a" { steps=900 } stage "b" { seq=64 }', ["steps=30"])
    assert [stage.steps for stage in mixed.stages] == [30, 30], "one without takes those of the run"


def test_fingerprint_ignores_names_and_origins_and_nothing_else():
    assert resolve("layers=12").fingerprint() == resolve("hidden=768").fingerprint()
    assert resolve("layers=12").fingerprint() != resolve("layers=11").fingerprint()
    assert resolve("seed=1").fingerprint() != resolve("seed=2").fingerprint()


@pytest.mark.parametrize(
    ("share", "attention", "ffn"),
    [
        ("none", "012345", "012345"), ("all", "000000", "000000"), ("ffn", "012345", "000000"),
        ("attention", "000000", "012345"), ("groups(4)", "002335", "002335"),
        ("map([0, 0, 0, 3, 3, 3])", "000333", "000333"),
    ],
)  # fmt: skip
def test_owner_maps(share, attention, ffn):
    encoder = resolve(f"layers=6 share={share}").encoder
    owners = encoder.attention_owner, encoder.ffn_owner
    assert tuple("".join(map(str, owner)) for owner in owners) == (attention, ffn)


@pytest.mark.parametrize("depth", [1, 7, 12, 18, 22, 26, 36, 39])
def test_groups_are_exact_for_every_count(depth):
    for groups in range(1, depth + 1):
        owners = resolve(f"layers={depth} share=groups({groups})").encoder.ffn_owner
        assert len(set(owners)) == groups
        for layer, owner in enumerate(owners):
            assert owner * groups // depth == layer * groups // depth
            assert owner <= layer
            assert owners[owner] == owner


CPU = Machine("cpu", "a processor", 8 * 2**30, fast_bf16=True, cores=2)


def fitting(examples: int) -> tuple[Fit, ...]:
    """So many examples fit, with all that one keeps."""
    return (Fit(examples, examples, recompute=False),)


def test_the_plan_cuts_the_batch_evenly():
    resolved = resolve("batch=48 steps=100")
    assert plan(resolved, CPU, fitting(20)).microbatches == (16,)
    assert plan(resolved, CPU, fitting(1000)).microbatches == (48,)
    assert plan(resolve("batch=48 microbatch=4"), CPU, fitting(20)).microbatches == (4,)
    with pytest.raises(MachineError, match="not even one example"):
        plan(resolved, CPU, fitting(0))


@pytest.mark.parametrize(
    ("extra", "kept", "recomputed", "expected"),
    [
        ("", 8, 80, Fit(8, 8, False)),  # few, but enough to keep a CPU busy
        ("", 0, 8, Fit(8, 0, True)), ("", 0, 0, Fit(0, 0, False)),
        ("microbatch=16", 8, 80, Fit(80, 8, True)), ("recompute=on", 8, 80, Fit(80, 8, True)),
        ("recompute=off", 0, 8, Fit(0, 0, False)),
    ],
)  # fmt: skip
def test_layers_are_recomputed_where_too_little_fits(extra, kept, recomputed, expected):
    resolved = resolve(f"batch=48 seq=512 steps=100 {extra}")
    budget = DeviceBudget(0, ANY, resolved.run.recompute)
    fit = choose_fit(resolved.stages[0], budget, kept, lambda: recomputed)
    assert fit == expected
    if fit.examples:
        reasons = plan(resolved, CPU, (fit,)).reasons
        automatic = fit.recompute and resolved.run.recompute == "auto"
        assert any("computed twice" in reason for reason in reasons) == automatic


def test_the_plan_decides_precision_and_compilation_by_machine():
    short = resolve("steps=100")
    assert plan(short, CPU, fitting(1)).precision == "bf16"
    gpu = Machine("cuda", "a GPU", 80 * 2**30, fast_bf16=True, cores=8)
    assert not plan(resolve("steps=100k"), CPU, fitting(1)).compile
    assert plan(resolve("steps=100k compile=on"), CPU, fitting(1)).compile
    assert plan(short, gpu, fitting(1)).compile
    assert not plan(resolve("steps=100k compile=off"), gpu, fitting(1)).compile
    task = "task=classify('a', labels=[x, y], examples=4000) batch=32 seq=128"
    for steps, pays in {"400": False, "1M": True}.items():
        long = plan(resolve(f"{task} steps={steps}"), gpu, fitting(1))
        assert long.compile == pays
        assert any("before compiling pays" in reason for reason in long.reasons) != pays
    assert plan(resolve(f"{task} steps=400 compile=on"), gpu, fitting(1)).compile
    old = Machine("cpu", "an older processor", 8 * 2**30, fast_bf16=False, cores=2)
    assert plan(short, old, fitting(1)).precision == "fp32"
    bare = replace(old, without_kernels="no C compiler (cc) is installed")
    assert "no C compiler" in " ".join(plan(short, bare, fitting(1)).reasons)
    with pytest.raises(MachineError, match="device=cuda"):
        plan(resolve("device=cuda"), CPU, fitting(1))


@pytest.mark.parametrize("batch", [1, 7, 12, 97, 360, 2**20, 10**6 + 3])
def test_the_largest_divisor_is_found_quickly_and_truly(batch):
    assert largest_divisor(999_999_999_989, 10**9) == largest_divisor(batch, 0) == 1
    for limit in (1, 2, 5, 8, 11, 100, 1000, batch):
        slowly = max(n for n in range(1, min(limit, batch) + 1) if batch % n == 0)
        assert largest_divisor(batch, limit) == slowly
    assert largest_divisor(10**30 - 1, 8) == 7


def test_another_body_drops_what_an_extended_spec_says_of_its_transformer():
    resolved = resolve("extends bert-mini body=bilstm(8) objective=mlm")
    assert {type(stage.encoder) for stage in resolved.stages} == {BiLstmBody}
    assert resolved.encoder.hidden == 16


@pytest.mark.parametrize(
    ("settings", "code"),
    [('hidden=64 hidden=128 teacher="runs/bert"', "E102"), ('teacher=distil("bert")', "E103")],
)
def test_teachers_are_not_missed_where_the_spec_cannot_be_read(settings, code):
    diagnostics = Diagnostics()
    compile_spec(f"objective=kd(logits)+mlm {settings}", (), diagnostics)
    assert [each.code for each in diagnostics.found] == [code]


def test_typed_settings_agree_with_the_printed_program_after_each_pass():
    text = "body=bilstm(150) objective=mlm stage 'a' { steps=1M tokens } stage 'b' { steps=5 }"
    diagnostics = Diagnostics()
    (program,) = lang.load(text, (), diagnostics)
    known = program
    for step in passes.PASSES:
        known = step(known, diagnostics) or known
        for name, given in known.program.settings.items() if isinstance(known, Complete) else ():
            assert (getattr(known, name), known.origins[name]) == (given.value, given.origin)
    assert [stage.steps for stage in known.stages] == [8, 5]
    assert (known.hidden, diagnostics.found) == (300, [])


@pytest.mark.parametrize(
    "step", [one for one in passes.PASSES if one is not vectors], ids=lambda one: one.__name__
)
def test_examples_of_passes_hold(step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(30517))]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(tokens))
    text = re.sub(r"\s+", " ", step.__doc__)
    examples = re.findall(r"``([^`]+)`` (?:becomes ``([^`]+)``|is ([ER]\d{3}))", text)
    assert examples, "a pass says what it does by an example"
    for spec, after, code in examples:
        diagnostics = Diagnostics()
        (program,) = lang.load(spec, (), diagnostics)
        complete = passes.complete(program, diagnostics)
        if code:
            assert [each.code for each in [*diagnostics.found, *diagnostics.remarks]] == [code]
            continue
        assert not diagnostics.found
        (wanted,) = lang.load(after.removesuffix(" ..."), (), Diagnostics())
        for setting, given in wanted.settings.items():
            assert getattr(complete.stages[0], setting) == given.value, setting


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/\n", {}, 8), ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        # A container sees its own group as the root, and a path from outside.
        ("0::/docker/123\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8), ("0::/\n", {"cpu.max": "nonsense\n"}, 8),
        ("4:cpu,cpuacct:/a\n1:name=systemd:/a\n", {"cpu.max": "150000 100000\n"}, 8),
    ],
)  # fmt: skip
def test_a_quota_counts_as_cores(group, files, expected, tmp_path, monkeypatch):
    """Of a machine of eight cores."""
    monkeypatch.setattr(cores, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    groups = {f"groups/{path}": text for path, text in files.items()}
    for path, text in {"proc/self/cgroup": group, **groups}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert cores.available_cores() == expected


ALLOWED = [
    "objective=mlm(replace=100/0/0)", "objective=mlm(unit=span) vocab=bytes",
    "objective=span+sbo format=single-segment", "objective=clm positions=none",
    "positions=none attention=relative",
]  # fmt: skip


def test_what_is_meant_is_not_remarked_on():
    specs = [f"hidden=64 {spec}" for spec in ALLOWED] + sorted(shipped_specs())
    for spec in specs:
        diagnostics = Diagnostics()
        points(spec, (), diagnostics)
        idle = ("R107", *["R108"] * (spec in shipped_specs()))
        assert not [each for each in diagnostics.remarks if each.code in idle], spec


def test_a_term_twice_is_refused_and_heads_are_found_for_the_largest_widths():
    twice = "objective = 15*mntp + 15*mntp + clm"  # next to rows that are read causally
    for spec, said in ((twice, "has mntp 2 times"), ("hidden=999999 heads=4 seq=16", "heads=3")):
        pytest.raises(SpecError, points, spec).match(said)


def test_lists_of_another_length_than_layers_are_refused_in_every_spec():
    """Whatever looks at the layers before, such as what a teacher's layers are compared with."""
    for spec in sorted(shipped_specs()):
        for setting in ("heads=[4096]", "ffn=[64]"):
            pytest.raises(SpecError, points, f"extends {spec} {setting}")


SCHEMES = ("none", "all", "attention", "groups(1)", "groups(2)", "groups(3)")
DEPTHS = ((2, 3), (2, 4), (3, 4), (3, 6), (3, 9), (4, 6), (4, 8))


def sharing(scheme: str, layers: int) -> Resolved:
    return resolve(f"hidden=8 heads=1 vocab=99 seq=16 share={scheme} layers={layers}")


@pytest.mark.parametrize("growth", [Stack(), Interleave()])
def test_a_grown_layer_computes_as_the_layer_it_is_a_copy_of(growth):
    """Where nothing is refused, whichever layer owns the weights."""
    refused = 0
    for scheme, (before, after) in itertools.product(SCHEMES, DEPTHS):
        if f"({before + 1})" in scheme:
            continue
        old, new = (sharing(scheme, layers) for layers in (before, after))
        copies = weight_map(old, new, growth).copies
        _, misfits = fit(old, {weight.name for weight in model_weights(old)}, new, growth)
        agree = all(
            copies[f"encoder.{part}.{owner}.norm.weight"]
            == f"encoder.{part}.{there[growth.source(layer, before, after)]}.norm.weight"
            for part, there in old.encoder.owners.items()
            for layer, owner in enumerate(new.encoder.owners[part])
        )
        assert agree == all(
            find_split(growth, there, new.encoder.owners[part]) is None
            for part, there in old.encoder.owners.items()
        )
        assert agree == (not any("share their" in reason for reason in misfits))
        refused += not agree
    assert refused


def test_the_groups_of_init_are_not_torn_apart():
    """Where the smaller network is another run's, its weights say so when they are read."""
    old, new = (sharing("groups(2)", layers) for layers in (2, 4))
    _, misfits = fit(old, {weight.name for weight in model_weights(old)}, new, Stack())
    assert misfits[0] == (
        "layers 1 and 0 share their attention, but would start as layers 1 and 0 there, which do "
        "not (grow=interleave does)"
    )


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
