"""Going on with a run: under other settings, for more steps, from a checkpoint of another."""

import re
import shlex

import pytest
from typer.testing import CliRunner

import bertc
from bertc.api import resolve
from bertc.base.diagnostics import (
    DataError,
    MissingInputError,
    ResumeRefusedError,
    SpecError,
    UsageError,
)
from bertc.check.facts.networks import begun_from, taken
from bertc.cli.app import app
from bertc.ir.changing.growth import FromRun
from bertc.ir.learning.objective import Mlm, Term
from bertc.ir.learning.optimizer import (
    Adam,
    ConstantRate,
    Cosine,
    InverseSqrt,
    Muon,
    Polynomial,
    StableAdam,
    WarmupStableDecay,
)
from bertc.ir.methods.average import Ema
from bertc.ir.methods.pruning import Neurons
from bertc.ir.program.written import Given, Origin
from bertc.ir.vocabulary import WordPiece
from bertc.lang.files import overrides_in
from bertc.machine.machine import detect
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.records.changes import refuse_another_program
from bertc.run.records.folder import RunFolder
from bertc.run.records.longer import longer, why_not_longer, with_settings
from bertc.run.train import start
from tests.run.conftest import final_tensors, lines, same_tensors, stop_after
from tests.text.test_prepare import Notes

FLAT = Adam(lr=1e-3, warmup=2, schedule=ConstantRate())


@pytest.fixture
def command(tmp_path, monkeypatch, cache):
    """A command line in the folder of the runs; what failed is raised."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(cache))

    def call(line):
        done = CliRunner().invoke(app, shlex.split(line))
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return call


def test_a_longer_run_is_one_that_never_ended(tiny, go, tmp_path, monkeypatch, cache):
    """To the bit: weights and moments; its metrics have what its first end added."""
    optimizer = Adam(lr=1e-3, warmup=2, schedule=InverseSqrt())
    own = {"optimizer": optimizer, "eval_every": 4, "log_every": 4, "save_every": 4}
    short, whole = tiny(steps=6, **own), tiny(steps=14, **own)
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


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"optimizer": Adam(warmup=2, schedule=Polynomial())}, "schedule=polynomial"),
        ({"optimizer": Adam(warmup=2, schedule=Cosine())}, "schedule=cosine"),
        ({"optimizer": Adam(warmup=0.2, schedule=ConstantRate())}, "a warm-up that is a part"),
        ({"optimizer": FLAT, "stages": {"a": {"steps": 6}, "b": {"steps": 6}}}, "share out"),
    ],
)
def test_more_steps_are_refused_where_the_first_would_be_others(tiny, tmp_path, settings, reason):
    old = tiny(**settings)
    with pytest.raises(ResumeRefusedError, match=reason) as refused:
        refuse_another_program(old, longer(old, 24), tmp_path / "run")
    assert f"--set 'init=\"{tmp_path}/run\"' --set steps=12" in refused.value.help


def test_a_decay_that_is_planned_further_than_the_run_goes_on(tiny):
    planned = tiny(optimizer=Adam(warmup=0.1, schedule=Polynomial(over=100)))
    for old in (planned, tiny(optimizer=FLAT)):
        assert why_not_longer(old, longer(old, 24)) == ""
    remembering = planned.stages[0].model_copy(update={"memory": 8})
    old = planned.model_copy(update={"stages": (remembering,)})
    assert "memory" in why_not_longer(old, longer(old, 24))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"objective": (Term(objective=Mlm(p=0.4, p_end=0.1)),)}, r"objective .*\(p_end\)"),
        ({"prune": Neurons(share=0.5, every=0.25)}, r"prune .*\(prune=neurons\)"),
        ({"prune": Neurons(share=0.5)}, "^$"),
        ({"average": Ema(half_life=0.5)}, r"average .*\(average=ema\)"),
        ({"average": Ema(half_life=5)}, "^$"),
    ],
)
def test_a_method_that_acts_by_shares_of_the_steps_is_made_for_them(tiny, settings, why):
    old = tiny(optimizer=FLAT, **settings)
    assert re.search(why, why_not_longer(old, longer(old, 24)))


def test_the_folder_stands_for_the_spec(tiny):
    old = tiny(optimizer=FLAT)
    found = with_settings(old, ["steps=24", "microbatch=2", "strategy=ddp"])
    assert (found.steps, found.stages[0].microbatch, found.run.strategy) == (24, 2, "ddp")
    refuse_another_program(old, found)
    with pytest.raises(ResumeRefusedError, match="^save_every, batch cannot change") as refused:
        with_settings(old, ["save_every=7", "batch=32", "microbatch=2"])
    assert refused.value.help.startswith("leave save_every, batch out; microbatch")
    with pytest.raises(UsageError, match="one value"):
        with_settings(old, ["steps={1,2}"])
    with pytest.raises(SpecError):
        with_settings(old, ["stesp=2"])


SPEC = (
    "layers=1 hidden=16 heads=2 vocab=wordpiece(120) seq=16 batch=4 steps=4 device=cpu compile=off "
    "holdout=0.2 eval_examples=8 data=files('{text}', sentences=lines)"
)


FALLING, FLAT_RATE = (
    "optimizer=adamw(lr=1e-3,warmup=1)",
    "optimizer=adamw(warmup=1,schedule=constant)",
)


def test_commands_that_go_on(command, tmp_path, corpus_file):
    spec = SPEC.format(text=corpus_file)
    command(f'train "{spec}" --set "{FALLING}" --out run')
    with pytest.raises(ResumeRefusedError, match="steps: 4 -> 6.*made for 4 steps") as refused:
        command("train --resume run --set steps=6")
    on = refused.value.help.split("from its weights: ")[1]
    command(f'train "{spec}" {on} --out run-on')
    weights = bertc.load(tmp_path / "run-on")
    assert (weights.resolved.steps, weights.resolved.run.init.path) == (2, "run")
    command(f'train "{spec}" --set "{FLAT_RATE}" --out flat')
    assert "6 of 6 steps" in command("train --resume --out flat --set steps=6").output
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
    with pytest.raises(ResumeRefusedError, match="batch"):
        refuse_another_program(old, other)


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("train", UsageError, "no spec given"),
        ("train run", UsageError, "is a run, not a spec"),
        ("train --resume run --out other", UsageError, "in its own folder"),
        ("train --resume runs/nope", MissingInputError, "neither a run nor a spec runs/nope"),
        ("train --resume --out nope", MissingInputError, "neither a run nor a spec nope"),
        ("train a.bertc --resume", SpecError, "heads"),  # which has no folder yet
    ],
)
def test_a_folder_is_resumed_or_refused(command, tmp_path, line, error, said):
    (tmp_path / "a.bertc").write_text("layers=1 hidden=16 heads=3")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "resolved.json").write_text("{}")
    with pytest.raises(error, match=said):
        command(line)


DECAY = WarmupStableDecay(decay=4, end=0.1)


def decaying(tiny, run, **settings):
    """Four steps of decay from step 8 of a run, as ``api`` resolves them: facts are looked up."""
    init = FromRun(path=str(run), step=8, moments="carry")
    init = taken(Given(init, Origin("written")), {}, {})[0].value
    optimizer = StableAdam(lr=1e-3, warmup=0, schedule=WarmupStableDecay(decay=1.0, end=0.1))
    return tiny(steps=4, optimizer=optimizer, init=init, **settings)


def test_a_decay_from_a_stable_run_is_that_of_the_run_itself(tiny, go, tmp_path, monkeypatch):
    """To the bit, with dropout: a decay begun at a kept checkpoint, and resumed within."""
    own = {"save_every": 4, "eval_every": 100, "keep": "all"}
    stable = StableAdam(lr=1e-3, warmup=2, schedule=ConstantRate())
    whole = StableAdam(lr=1e-3, warmup=2, schedule=DECAY)
    go(tiny(steps=12, optimizer=whole, **own), "whole")
    go(tiny(steps=10, optimizer=stable, **own), "stable")
    steps = sorted(path.name for path in (tmp_path / "stable" / "checkpoints").iterdir())
    assert steps == ["step-00000004", "step-00000008", "step-00000010"]
    decay = decaying(tiny, tmp_path / "stable", **own)
    assert (decay.run.init.updates, decay.run.init.rows) == (8, 64)
    stop_after(monkeypatch, 2, lambda: go(decay, "decay"))
    go(decay, "decay", resume=True)
    same_tensors(final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "decay"))


def test_a_rule_that_keeps_other_moments_does_not_go_on_with_these(tiny, go, tmp_path):
    go(tiny(steps=2), "run")
    init = FromRun(path=str(tmp_path / "run"), step=2, moments="carry")
    with pytest.raises(DataError, match="was trained by adamw, which keeps two moments") as refused:
        go(tiny(steps=2, init=init, optimizer=Muon(lr=1e-3)), "again")
    assert refused.value.help == "moments=reset, or optimizer=adamw"
    init = init.model_copy(update={"moments": "reset"})
    go(tiny(steps=2, init=init, optimizer=Muon(lr=1e-3)), "again")


def test_weights_alone_of_a_step_begin_with_a_new_optimiser(tiny, go, tmp_path):
    go(tiny(steps=4, save_every=2, keep="all"), "run")
    go(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=2)), "again")
    with pytest.raises(MissingInputError, match="no checkpoint of step 3") as missing:
        go(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=3)), "never")
    assert missing.value.help == "name one of steps 2, 4"
    begun_from(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=2)))
    with pytest.raises(DataError, match="do not fit") as refused:
        begun_from(tiny(vocab=WordPiece(size=130), init=FromRun(path=str(tmp_path / "run"))))
    assert refused.value.help.startswith("leave vocab out, init has its own")
    with pytest.raises(MissingInputError, match="no checkpoint of step 3"):  # by check too
        begun_from(tiny(steps=2, init=FromRun(path=str(tmp_path / "run"), step=3)))


STAGES = 'stage "short" { steps=60 seq=16 } stage "long" { steps=40 seq=32 }'
SMALL = "hidden=64 layers=2 vocab=1000 steps=3000"


def refusal(old, new):
    with pytest.raises(ResumeRefusedError) as caught:
        refuse_another_program(old, new)
    return caught.value


@pytest.mark.parametrize(
    ("spec", "change", "said"),
    [
        (SMALL, "steps=2000", "steps: 3000 -> 2000"),
        (SMALL, "seq=64", "seq: 512 -> 64"),
        (SMALL, "hidden=128", "hidden: 64 -> 128"),
        (SMALL, "layers=3", "layers: 2 -> 3"),
        (SMALL, "heads=4", "heads: 1 -> 4"),
        (SMALL, "ffn=[64, 96]", "ffn: 256 -> [64, 96]"),
        (SMALL, "share=all", "share: none -> all"),
        (SMALL, "activation=relu", "activation: gelu -> relu"),
        (SMALL, "vocab=2000", "vocab: wordpiece(size=1000) -> wordpiece(size=2000)"),
        (SMALL, "seed=1", "seed: 0 -> 1"),
        (SMALL, "save_every=7", "save_every: 300 -> 7"),
        (SMALL, "objective=mlm+sop", "objective: mlm -> mlm + sop"),
        (SMALL, 'data=files("a b.txt")', 'data: docstrings -> files("a b.txt")'),
        (SMALL, "optimizer=adam(lr=1e-3)", "optimizer: adamw -> adam(lr=0.001)"),
        ("extends bert-base", "steps=1000", "steps: 1000000 -> 1000"),
        (f"{SMALL} {STAGES}", "batch=32", "batch: 256 -> 32"),
    ],
)
def test_the_cause_is_named_alone(spec, change, said):
    refused = refusal(resolve(spec), resolve(spec, [change]))
    assert refused.message == f"the run was started with other settings: {said}"


def test_a_setting_that_was_only_set_before():
    refused = refusal(resolve(SMALL, ["steps=4000", "batch=32"]), resolve(SMALL))
    assert refused.message.endswith("settings: steps: 4000 -> 3000; batch: 32 -> 256")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("steps=60", "steps=30", "short.steps: 60 -> 30"),
        ("seq=32", "seq=24", "long.seq: 32 -> 24"),
        ('stage "long" { steps=40 seq=32 }', "", "stages: short, long -> short"),
    ],
)
def test_what_a_stage_says_cannot_be_set_outside_it(before, after, said):
    stages, small = STAGES.replace(before, after), SMALL.replace("steps=3000", "")
    refused = refusal(resolve(f"{small} {STAGES}"), resolve(f"{small} {stages}"))
    assert refused.message.endswith(f"settings: {said}")


def test_what_no_setting_explains_is_listed_as_it_is():
    old = resolve(SMALL)
    stage = old.stages[0].model_copy(update={"padded": not old.stages[0].padded})
    refused = refusal(old, old.model_copy(update={"stages": (stage,)}))
    assert "stages.0.padded: true -> false" in refused.message


def test_how_a_run_fits_on_its_devices_may_change():
    refuse_another_program(
        resolve(SMALL), resolve(SMALL, ["microbatch=2", "recompute=on", "strategy=fsdp"])
    )


@pytest.mark.parametrize(("steps", "said"), [(50, "steps: 30 -> 50"), (10, "steps: 30 -> 10")])
def test_steps_counted_from_epochs_are_named_as_others(steps, said, tmp_path):
    task = "task=classify('a.tsv', 'b.tsv', labels=[yes, no], examples=40)"
    old = resolve(f"{SMALL.replace(' steps=3000', '')} batch=4 {task} data=files('farm.txt')")
    with pytest.raises(ResumeRefusedError) as caught:
        refuse_another_program(old, longer(old, steps), tmp_path)
    assert said in caught.value.message
    assert ("init=" in caught.value.help) == (steps > 30)


def test_kernels_that_come_or_go_are_reported(tiny, tmp_path, monkeypatch, go):
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
        start.plan_of(resolved, detect("cpu"), lock, noting)
        found = [note for note in noting.notes if "kernels for this processor" in note]
        assert [overrides in note for note in found] == ([True] if overrides else [])


def test_text_that_no_one_named_is_said(tiny):
    for resolved, said in ((resolve("layers=1"), True), (tiny(), False)):
        noting = Notes()
        start.plan_of(resolved, detect("cpu"), None, noting)
        assert ("1,000,000 steps on docstrings" in noting.notes[-1]) == said
