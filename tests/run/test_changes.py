"""What is said where a run is to go on under other settings: the causes."""

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import ResumeRefusedError
from bertc.machine.machine import detect
from bertc.run.records.changes import refuse_another_program
from bertc.run.records.folder import RunFolder
from bertc.run.records.longer import longer
from bertc.run.train import start
from tests.data.test_prepare import Notes

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


def test_kernels_that_come_or_go_are_told(tiny, tmp_path, monkeypatch, go):
    """They draw dropout another way than torch's, so what follows is another run."""
    resolved = tiny(steps=3)
    go(resolved)
    lock = RunFolder(tmp_path / "run").read_lock()
    for before, now, told in (
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
        assert [told in note for note in found] == ([True] if told else [])


def test_text_that_no_one_named_is_said(tiny):
    for resolved, said in ((resolve("layers=1"), True), (tiny(), False)):
        noting = Notes()
        start.plan_of(resolved, detect("cpu"), None, noting)
        assert ("1,000,000 steps on docstrings" in noting.notes[-1]) == said
