"""Going on with a run: under other settings, for more steps, from a checkpoint of another."""

import re
import shlex

import pytest

import bertc
from bertc.api import resolve
from bertc.base.diagnostics import (
    DataError,
    MissingInputError,
    ResumeRefusedError,
    SpecError,
    UsageError,
)
from bertc.check.facts.networks import compare_init, take_network
from bertc.ir.changing.growth import FromRun
from bertc.ir.written import Given, Origin
from bertc.lang.files import overrides_in
from bertc.machine.machine import detect
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.records.changes import refuse_another_program
from bertc.run.records.folder import RunFolder
from bertc.run.records.longer import longer, why_not_longer, with_settings
from bertc.run.train import start
from tests.run.conftest import final_tensors, lines, same_tensors, stop_after
from tests.text.test_prepare import Notes

FLAT = "optimizer=adamw(1e-3, warmup=2, schedule=constant)"


def test_a_longer_run_is_one_that_never_ended(tiny, go, tmp_path, monkeypatch, cache):
    """To the bit: weights and moments; its metrics have what its first end added."""
    own = "optimizer=adamw(1e-3, warmup=2, schedule=inverse-sqrt) eval_every=4 log_every=4"
    short, whole = tiny(own, steps=6), tiny(own, steps=14)
    go(whole, "straight")
    go(short)
    run = RunFolder(tmp_path / "run")
    assert run.is_finished(short)
    stop_after(monkeypatch, 9, lambda: go(longer(short, 14), resume=True))
    assert not run.is_finished(run.read_resolved())
    assert evaluate_run(run.path, cache=cache, quiet=True).step == 9
    go(run.read_resolved(), resume=True)
    same_tensors(final_tensors(run.path), final_tensors(tmp_path / "straight"))
    seen, every = (
        {(line["step"], line["loss"]) for line in lines(tmp_path / name, "eval")}
        for name in ("run", "straight")
    )
    assert {step for step, _ in seen - every} == {6}, "evaluated at its first end too"
    assert run.is_finished(whole)
    assert (run.path / "resolved-00000006.json").exists()


@pytest.mark.parametrize(("settings", "reason"), [
    ("optimizer=adamw(warmup=2)", "schedule=polynomial"),
    ("optimizer=adamw(warmup=2, schedule=cosine)", "schedule=cosine"),
    ("optimizer=adamw(warmup=20%, schedule=constant)", "a warm-up that is a part"),
    (f'{FLAT} stage "a" {{ steps=6 }} stage "b" {{ steps=6 }}', "share out"),
])  # fmt: skip
def test_more_steps_are_refused_where_the_first_would_be_others(tiny, tmp_path, settings, reason):
    old = tiny(settings)
    with pytest.raises(ResumeRefusedError, match=reason) as refused:
        refuse_another_program(old, longer(old, 24), tmp_path / "run")
    assert f"--set 'init=\"{tmp_path}/run\"' --set steps=12" in refused.value.help


@pytest.mark.parametrize(("settings", "why"), [
    ("objective=mlm(40%, p_end=10%)", r"objective .*\(p_end\)"),
    ("prune=neurons(50%, every=25%)", r"prune .*\(prune=neurons\)"),
    ("prune=neurons(50%)", "^$"),
    ("average=ema(50%)", r"average .*\(average=ema\)"),
    ("average=ema(5)", "^$"),
    ("objective=clm memory=8 attention=relative", "memory"),
    ("optimizer=adamw(warmup=10%, schedule=polynomial(over=100))", "^$"),  # further than it
])  # fmt: skip
def test_what_acts_by_shares_of_the_steps_is_made_for_them(tiny, settings, why):
    old = tiny(FLAT, settings)
    assert re.search(why, why_not_longer(old, longer(old, 24)))


def test_the_folder_stands_for_the_spec(tiny):
    old = tiny(FLAT)
    found = with_settings(old, ["steps=24", "microbatch=2", "strategy=ddp"])
    assert (found.steps, found.stages[0].microbatch, found.run.strategy) == (24, 2, "ddp")
    refuse_another_program(old, found)
    with pytest.raises(ResumeRefusedError, match="^save_every, batch cannot change") as refused:
        with_settings(old, ["save_every=7", "batch=32", "microbatch=2"])
    assert refused.value.help.startswith("leave save_every, batch out; microbatch")
    pytest.raises(UsageError, with_settings, old, ["steps={1,2}"]).match("one value")
    pytest.raises(SpecError, with_settings, old, ["stesp=2"])


SPEC = "layers=1 hidden=16 heads=2 vocab=wordpiece(120) seq=16 batch=4 steps=4 device=cpu "
SPEC += "compile=off holdout=0.2 eval_examples=8 data=files('{text}', sentences=lines)"


FALLING = "optimizer=adamw(lr=1e-3,warmup=1)"
FLAT_RATE = "optimizer=adamw(warmup=1,schedule=constant)"


def test_commands_that_go_on(call, at_home, tmp_path, corpus_file):
    spec = SPEC.format(text=corpus_file)
    assert call("train", spec, "--set", FALLING, "--out", "run")[0] == 0
    code, _, err = call("train", "--resume", "run", "--set", "steps=6")
    assert code == 76
    assert re.search("steps: 4 -> 6.*made for 4 steps", err)
    on = shlex.split(err.split("from its weights: ")[1])
    assert call("train", spec, *on, "--out", "run-on")[0] == 0
    weights = bertc.load(tmp_path / "run-on")
    assert (weights.resolved.steps, weights.resolved.run.init.path) == (2, "run")
    assert call("train", spec, "--set", FLAT_RATE, "--out", "flat")[0] == 0
    assert "6 of 6 steps" in call("train", "--resume", "--out", "flat", "--set", "steps=6")[1]
    text = (tmp_path / "flat" / "spec.bertc").read_text()
    assert text.endswith(f"# --set {FLAT_RATE}\n# --set steps=6\n")
    assert overrides_in(text) == [FLAT_RATE, "steps=6"]


def test_the_spec_with_more_steps_goes_on_too(corpus_file):
    spec = SPEC.format(text=corpus_file)
    old, new, other = (
        resolve(f"{spec} {FLAT_RATE}", overrides)
        for overrides in ([], ["steps=400"], ["steps=400", "batch=8"])
    )
    assert new.run.save_every != old.run.save_every, "which follows from the steps"
    refuse_another_program(old, new)
    pytest.raises(ResumeRefusedError, refuse_another_program, old, other).match("batch")


@pytest.mark.parametrize(("line", "code", "said"), [
    ("train", 2, "no spec given"), ("train run", 2, "is a run, not a spec"),
    ("train --resume run --out other", 2, "in its own folder"),
    ("train --resume runs/nope", 66, "neither a run nor a spec runs/nope"),
    ("train --resume --out nope", 66, "neither a run nor a spec nope"),
    ("train a.bertc --resume", 65, "heads"),  # which has no folder yet
])  # fmt: skip
def test_a_folder_is_resumed_or_refused(call, at_home, tmp_path, line, code, said):
    (tmp_path / "a.bertc").write_text("layers=1 hidden=16 heads=3")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "resolved.json").write_text("{}")
    found, _, err = call(*line.split())
    assert (found, said in err) == (code, True)


def test_a_decay_from_a_stable_run_is_that_of_the_run_itself(tiny, go, tmp_path, monkeypatch):
    """To the bit, with dropout: a decay begun at a kept checkpoint, and resumed within."""

    def run(steps, rate, **settings):
        own = f"save_every=4 eval_every=100 keep=all optimizer=stable-adamw(1e-3, {rate})"
        return tiny(own, steps=steps, **settings)

    go(run(12, "warmup=2, schedule=wsd(4, end=10%)"), "whole")
    go(run(10, "warmup=2, schedule=constant"), "stable")
    steps = sorted(path.name for path in (tmp_path / "stable" / "checkpoints").iterdir())
    assert steps == ["step-00000004", "step-00000008", "step-00000010"]
    init = FromRun(path=str(tmp_path / "stable"), step=8, moments="carry")
    (init, *_) = take_network(Given(init, Origin("written")), {}, {})  # as ``api`` does
    decay = run(4, "warmup=0, schedule=wsd(100%, end=10%)", init=init.value)
    assert (decay.run.init.updates, decay.run.init.rows) == (8, 64)
    stop_after(monkeypatch, 2, lambda: go(decay, "decay"))
    go(decay, "decay", resume=True)
    same_tensors(final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "decay"))


def test_a_rule_that_keeps_other_moments_does_not_go_on_with_these(tiny, go, tmp_path):
    go(tiny(steps=2))
    init = f"steps=2 optimizer=muon(1e-3) init=run('{tmp_path}/run', step=2, moments="
    with pytest.raises(DataError, match="was trained by adamw, which keeps two moments") as refused:
        go(tiny(f"{init}carry)"), "again")
    assert refused.value.help == "moments=reset, or optimizer=adamw"
    go(tiny(f"{init}reset)"), "again")


def test_weights_alone_of_a_step_begin_with_a_new_optimiser(tiny, go, tmp_path):
    go(tiny(steps=4, save_every=2, keep="all"))
    there, gone = (tiny(f"steps=2 init=run('{tmp_path}/run', step={n})") for n in (2, 3))
    go(there, "again")
    compare_init(there)
    for read in (lambda program: go(program, "never"), compare_init):  # by check too
        with pytest.raises(MissingInputError, match="no checkpoint of step 3") as missing:
            read(gone)
        assert missing.value.help == "name one of steps 2, 4"
    with pytest.raises(DataError, match="do not fit") as refused:
        compare_init(tiny(f"vocab=wordpiece(130) init='{tmp_path}/run'"))
    assert refused.value.help.startswith("leave vocab out, init has its own")


SMALL = "hidden=64 layers=2 vocab=1000 steps=3000"
OPEN = SMALL.replace(" steps=3000", "")
SHORT, LONG = 'stage "short" { steps=60 seq=16 }', 'stage "long" { steps=40 seq=32 }'
STAGES = f"{SHORT} {LONG}"
CAUSES = {
    "steps=2000": "steps: 3000 -> 2000", "seq=64": "seq: 512 -> 64", "seed=1": "seed: 0 -> 1",
    "hidden=128": "hidden: 64 -> 128", "layers=3": "layers: 2 -> 3", "heads=4": "heads: 1 -> 4",
    "ffn=[64, 96]": "ffn: 256 -> [64, 96]", "share=all": "share: none -> all",
    "activation=relu": "activation: gelu -> relu", "save_every=7": "save_every: 300 -> 7",
    "vocab=2000": "vocab: wordpiece(size=1000) -> wordpiece(size=2000)",
    "objective=mlm+sop": "objective: mlm -> mlm + sop",
    'data=files("a b.txt")': 'data: docstrings -> files("a b.txt")',
    "optimizer=adam(lr=1e-3)": "optimizer: adamw -> adam(lr=0.001)",
}  # fmt: skip
CHANGES = [
    *([(SMALL,), (SMALL, [change]), said] for change, said in CAUSES.items()),
    [("extends bert-base",), ("extends bert-base", ["steps=1000"]), "steps: 1000000 -> 1000"],
    [(f"{SMALL} {STAGES}",), (f"{SMALL} {STAGES}", ["batch=32"]), "batch: 256 -> 32"],
    [(SMALL, ["steps=4000", "batch=32"]), (SMALL,), "steps: 4000 -> 3000; batch: 32 -> 256"],
    *(
        [(f"{OPEN} {STAGES}",), (f"{OPEN} {STAGES.replace(old, new)}",), said]
        for old, new, said in (
            ("steps=60", "steps=30", "short.steps: 60 -> 30"),
            ("seq=32", "seq=24", "long.seq: 32 -> 24"),
            (LONG, "", "stages: short, long -> short"),
        )
    ),
]


@pytest.mark.parametrize(("before", "after", "said"), CHANGES, ids=[said for *_, said in CHANGES])
def test_the_cause_is_named_alone(before, after, said):
    with pytest.raises(ResumeRefusedError) as refused:
        refuse_another_program(resolve(*before), resolve(*after))
    assert refused.value.message == f"the run was started with other settings: {said}"


def test_what_no_setting_explains_is_listed_and_how_it_fits_may_change():
    old = resolve(SMALL)
    stage = old.stages[0].model_copy(update={"padded": not old.stages[0].padded})
    with pytest.raises(ResumeRefusedError, match="stages.0.padded: true -> false"):
        refuse_another_program(old, old.model_copy(update={"stages": (stage,)}))
    fitted = resolve(SMALL, ["microbatch=2", "recompute=on", "strategy=fsdp"])
    refuse_another_program(resolve(SMALL), fitted)


@pytest.mark.parametrize(("steps", "said"), [(50, "steps: 30 -> 50"), (10, "steps: 30 -> 10")])
def test_steps_counted_from_epochs_are_named_as_others(steps, said, tmp_path):
    task = "task=classify('a.tsv', 'b.tsv', labels=[yes, no], examples=40)"
    old = resolve(f"{OPEN} batch=4 {task} data=files('farm.txt')")
    with pytest.raises(ResumeRefusedError) as caught:
        refuse_another_program(old, longer(old, steps), tmp_path)
    assert said in caught.value.message
    assert ("init=" in caught.value.help) == (steps > 30)


def test_kernels_that_come_or_go_and_text_not_named_are_reported(tiny, tmp_path, monkeypatch, go):
    """They draw dropout another way than torch's, so what follows is another run."""
    resolved = tiny(steps=3)
    go(resolved)
    lock = RunFolder(tmp_path / "run").read_lock()
    for before, now, overrides in (
        ("", "", ""),
        ("no compiler", "no compiler", ""),
        ("", "no compiler", "started with kernels for this processor, now without them"),
        ("no compiler", "", "started without kernels for this processor, now with them"),
    ):
        noting = Notes()
        lock.machine["without_kernels"] = before
        monkeypatch.setattr(start, "missing", lambda value, now=now: now)
        start.plan_of(resolved, detect("cpu"), lock, noting, start.World())
        found = [note for note in noting.notes if "kernels for this processor" in note]
        assert [overrides in note for note in found] == ([True] if overrides else [])
    named = ' stage "a" { steps=3 } stage "b" { steps=9 data=files("b.txt") }'
    for resolved, said in ((resolve("layers=1"), "1,000,000"), (resolve(named), "3"), (tiny(), "")):
        noting = Notes()
        start.plan_of(resolved, detect("cpu"), None, noting, start.World())
        assert (f"named: {said} steps on docstrings" in noting.notes[-1]) == bool(said)
