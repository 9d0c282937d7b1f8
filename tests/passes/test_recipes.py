"""What a task takes from the authors of its system, and what a spec says instead."""

import pytest

import bertc
from bertc.diagnostics import Diagnostics, SpecError
from bertc.ir.task import Glue
from bertc.passes import resolve
from bertc.passes.recipes import FAMILIES, recipe
from bertc.syntax import load

RTE = 'task=glue(rte, data="glue/RTE", examples=2490)'


@pytest.mark.parametrize(
    ("family", "task", "figures"),
    [  # facts of the releases: rate, batch, tokens, and passes or steps
        ("bert", "mrpc", (5e-5, 32, 128, {"epochs": 3.0})),
        ("roberta", "rte", (2e-5, 16, 512, {"epochs": 10.0})),
        ("albert", "rte", (3e-5, 32, 512, {"steps": 800})),
        ("albert", "mnli", (3e-5, 128, 512, {"steps": 10000})),
        ("electra", "rte", (1e-4, 32, 128, {"epochs": 10.0})),
        ("electra", "mrpc", (1e-4, 32, 128, {"epochs": 3.0})),
        ("xlnet", "stsb", (5e-5, 32, 128, {"epochs": 3.0})),
    ],
)
def test_published_figures(family, task, figures):
    found = recipe(family, 768, Glue(task=task, data="-"))
    rate, batch, seq, length = figures
    assert (found["optimizer"].lr, found["batch"], found["seq"]) == (rate, batch, seq)
    assert length.items() <= found.items()


def test_electra_slows_the_lower_layers():
    small, large = (recipe("electra", width, Glue(task="rte", data="-")) for width in (768, 1024))
    assert (small["optimizer"].layer_decay, large["optimizer"].layer_decay) == (0.8, 0.9)
    assert large["optimizer"].lr == 5e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_knows_every_kind(family):
    for task in ('squad("a", version=2, examples=9)', 'race("a", examples=9)',
                 'classify("a", labels=["x", "y"], examples=9)',
                 'tagging("a", labels=["O", "B-X"], examples=9)'):  # fmt: skip
        (stage,) = bertc.resolve(f"recipe={family} task={task}").stages
        assert stage.steps >= 1


def test_passes_make_steps():
    (stage,) = bertc.resolve(RTE).stages
    assert stage.steps == 234  # 3 x 2,490 / 32, upwards
    (stage,) = bertc.resolve(f"{RTE} epochs=1 batch=10").stages
    assert (stage.steps, stage.batch) == (249, 10)
    (stage,) = bertc.resolve(f"{RTE} steps=7").stages
    assert stage.steps == 7


def test_a_stage_has_the_recipe_of_its_task_and_what_it_writes_itself():
    task = f"stage 'b' {{ {RTE} seq=64 }}"
    text = f"stage 'a' {{ objective=mlm }} {task} steps=100 batch=256 seq=32"
    first, second = bertc.resolve(text).stages
    assert (first.batch, first.seq, first.steps) == (256, 32, 100)
    assert (second.batch, second.seq, second.steps) == (32, 64, 234)
    _, forced = bertc.resolve(text, ["batch=8"]).stages
    assert forced.batch == 8


def test_what_a_chain_of_tasks_says_outside_its_stages_holds_in_each():
    text = f"batch=8 seq=48 stage 'a' {{ {RTE} steps=5 }} stage 'b' {{ {RTE} seq=64 }}"
    first, second = bertc.resolve(text).stages
    assert (first.batch, first.seq, first.steps) == (8, 48, 5)
    assert (second.batch, second.seq, second.steps) == (8, 64, 934)
    assert first.optimizer.lr == second.optimizer.lr == 5e-5


def test_a_task_needs_its_examples_counted():
    (program,) = load('task=glue(rte, data="glue/RTE")', (), Diagnostics())
    with pytest.raises(SpecError, match="E270"):
        resolve(program)
