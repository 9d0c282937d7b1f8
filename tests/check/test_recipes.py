"""What a task takes from the authors of its system, and what a spec says instead."""

import math
from typing import get_args

import pytest

import bertc
from bertc.api import points
from bertc.check.facts.networks import network_of
from bertc.check.passes.published.systems import Published
from bertc.hub.families import FAMILIES, family_for
from bertc.hub.families.family import Obstacle
from bertc.ir.learning.answer import Conditioned, Plain
from bertc.ir.learning.custom_task import Choose, Read
from bertc.ir.learning.optimizer import ConstantRate, Optimizer, Polynomial
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Xnli
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.node import System
from bertc.run.records.folder import identity
from tests.shipped import PRETRAINING, PROGRAMS

SYSTEMS = get_args(System)
GRIDS = [name for name, programs in PROGRAMS.items() if len(programs) > 1]
FAMILY_RECIPES = {family.model_type: family.recipe for family in FAMILIES}
RTE = 'task=glue(rte, data="glue/RTE", examples=2490)'
TAGS = 'task=tag("a", labels=[x, y], examples=90)'


@pytest.mark.parametrize(
    ("family", "task", "rate", "batch", "seq", "passes", "steps"),
    [  # facts of the releases: passes or steps
        ("bert", "mrpc", 5e-5, 32, 128, 3, 0), ("roberta", "rte", 2e-5, 16, 512, 10, 0),
        ("albert", "rte", 3e-5, 32, 512, 0, 800), ("albert", "mnli", 3e-5, 128, 512, 0, 10000),
        ("electra", "rte", 1e-4, 32, 128, 10, 0), ("electra", "mrpc", 1e-4, 32, 128, 3, 0),
        ("xlnet", "stsb", 5e-5, 32, 128, 0, 1200), ("spanbert", "rte", 2e-5, 32, 128, 10, 0),
        ("xlm", "rte", 2.5e-5, 8, 256, 250, 0), ("stackingbert", "rte", 3e-5, 16, 384, 4, 0),
        ("mosaicbert", "mnli", 5e-5, 48, 256, 3, 0), ("mosaicbert", "rte", 1e-5, 16, 256, 3, 0),
        ("modernbert", "mnli", 5e-5, 64, 256, 2, 0), ("modernbert", "rte", 1e-5, 16, 256, 3, 0),
        ("nomic", "rte", 3e-5, 16, 128, 10, 0), ("neobert", "rte", 1e-5, 8, 1024, 10, 0),
        ("deberta", "mnli", 1.5e-5, 64, 256, 3, 0),
    ],
)  # fmt: skip
def test_published_figures(family, task, rate, batch, seq, passes, steps):
    found = Published(family, 768).recipe(Glue(task=task, data="-"))
    assert (found["optimizer"].lr, found["batch"], found["seq"]) == (rate, batch, seq)
    assert found["steps" if steps else "epochs"] == (steps or passes)
    assert family != "deberta" or found["pooler"] == "gelu"


START, FIXED = {"schedule": Polynomial(decay_from="start")}, {"schedule": ConstantRate()}
GLUE, SQUAD, RACE = Glue(task="rte", data="-"), Squad(data="-"), Race(data="-")
PLAIN = {"decay": 0, "bias_correction": True, "layer_decay": 1}
MANY = Xnli(data="-", examples=400_000)


@pytest.mark.parametrize(("system", "width", "task", "rule", "settings"), [
    ("electra", 768, GLUE, {"layer_decay": 0.8}, {}),
    ("electra", 1024, GLUE, {"layer_decay": 0.9, "lr": 5e-5}, {}),
    *(("albert", 768, task, {**START, "bias_correction": False}, {})
      for task in (GLUE, SQUAD, RACE, Xnli(data="-"))),
    *(("roberta", 768, task, {"decay_exempt": "none"}, {}) for task in (GLUE, SQUAD, RACE)),
    ("roberta", 768, Glue(task="qqp", data="-"), {"warmup": 0.25}, {}),
    ("xlnet", 768, Glue(task="stsb", data="-"), {**PLAIN, "gradient_decay": 1}, {}),
    ("xlnet", 768, SQUAD, {**PLAIN, "gradient_decay": 0.75}, {}),
    ("xlnet", 768, RACE, {**PLAIN, "gradient_decay": 1}, {}),
    ("spanbert", 768, Squad(data="-", version=2), {"lr": 2e-5, "bias_correction": False},
     {"epochs": 4, "seq": 512, "batch": 32}),
    ("xlm", 1024, MANY, {**FIXED, "decay": 0, "clip": 0}, {"epochs": 12.5}),
    ("bert", 768, Xnli(data="-"), {}, {"epochs": 2}),
    ("electra", 256, RACE, {}, {"seq": 512}),
    ("electra", 256, Choose(), {}, {"seq": 512}),
    ("electra", 256, Tagging(data="-"), {}, {"seq": 256}),
])  # fmt: skip
def test_rules_and_rows_are_those_of_the_releases(system, width, task, rule, settings):
    found = Published(system, width).recipe(task)
    assert settings.items() <= found.items()
    assert {name: getattr(found["optimizer"], name) for name in rule} == rule


def test_a_bilstm_has_a_rate_of_its_own():
    for task, batch in (("sst2", 50), ("mrpc", 256)):
        stage = points(f'body=bilstm(150) task=glue({task}, "a", examples=512)')[0].stages[0]
        assert (stage.optimizer.lr, stage.optimizer.decay, stage.batch) == (1e-3, 0, batch)
        assert stage.steps == -(-30 * 512 // batch)


THEIRS = [  # what is left open, and how the authors had it
    ("roberta", 'race("a", examples=9)', {"first": "choice", "keeps": "beginning"}),
    ("albert", 'race("a", examples=9)', {"first": "passage", "keeps": "end"}),
    ("roberta", 'race("a", examples=9, first=passage)', {"first": "passage"}),
    ("electra", 'squad("a", examples=9)', {"head": Conditioned(width=512, units="gelu-tanh")}),
    ("electra", 'squad("a", examples=9, head=plain)', {"head": Plain()}),
    ("xlnet", 'squad("a", examples=9)', {"head": Conditioned()}),
    ("albert", 'squad("a", examples=9)', {"head": Plain()}),
    ("albert", 'squad("a", version=2, examples=9)', {"head": Conditioned()}),
    ("electra", 'glue(mrpc, "a", examples=9)', {"both_orders": True}),
    ("electra", 'glue(mrpc, "a", examples=9, both_orders=false)', {"both_orders": False}),
    ("electra", 'glue(rte, "a", examples=9)', {"both_orders": False, "dropout": 0.1}),
    ("xlm", 'glue(rte, "a", examples=9)', {"dropout": 0}),
    ("modernbert", 'glue(rte, "a", examples=9)', {"dropout": 0}),
    ("distilbert", 'glue(rte, "a", examples=9)', {"dropout": 0.2}),
]


@pytest.mark.parametrize(("family", "task", "wanted"), THEIRS)
def test_what_a_task_leaves_open_is_as_its_authors_had_it(family, task, wanted):
    (stage,) = bertc.resolve(f"recipe={family} task={task}").stages
    (found,) = stage.tasks
    assert {name: getattr(found, name) for name in wanted} == wanted


ASKED_OF_A_FOLDER = {"spanbert": "bert"}
"""Systems whose folders say no more than that they are another's."""
SAID_ALONE = ("distilbert", "ettin-decoder")
"""Specs with recipes that their networks do not show."""


@pytest.mark.parametrize("name", sorted(set(PRETRAINING) - set(GRIDS)))
def test_a_spec_its_run_and_its_folder_have_one_recipe(name, tmp_path):
    (resolved,) = PROGRAMS[name]
    (tuned,) = points(f"extends {name} {RTE}")
    (tmp_path / "resolved.json").write_text(resolved.model_dump_json())
    assert network_of(tmp_path)["recipe"] == tuned.run.recipe
    family = family_for(resolved, pad=0)
    if not isinstance(family, Obstacle):
        assert family.recipe == ASKED_OF_A_FOLDER.get(tuned.run.recipe, tuned.run.recipe)
    if not name.startswith(SAID_ALONE):  # and one that was trained before its spec said so
        bare = resolved.model_copy(update={"run": resolved.run.without_recipe})
        (tmp_path / "resolved.json").write_text(bare.model_dump_json())
        assert network_of(tmp_path)["recipe"] == tuned.run.recipe
        assert identity(bare) == identity(resolved)


def test_systems_have_the_recipes_of_their_authors():
    theirs = {
        "mbert": "bert", "roberta-base": "roberta", "camembert-base": "roberta",
        "xlm-r-large": "roberta", "albert-base": "albert", "electra-small": "electra",
        "xlnet-base": "xlnet", "spanbert-base": "spanbert", "xlm-15": "xlm",
        "bert-stacked": "stackingbert", "distilbert": "distilbert", "ettin-17m": "modernbert",
        "eurobert-210m": "eurobert", "nomic-bert": "nomic", "neobert-4k": "neobert",
        "mosaicbert-base": "mosaicbert", "deberta-v3-xsmall": "deberta", "gpt-small": "bert",
    }  # fmt: skip
    assert {name: points(f"extends {name} {RTE}")[0].run.recipe for name in theirs} == theirs
    assert FAMILY_RECIPES["neobert"] == "neobert", "which transformers has no class of"


def test_deberta_is_tuned_by_its_size():
    sizes = {"xsmall": (4.5e-5, 0.1), "small": (4.5e-5, 0.2), "base": (1.5e-5, 0.1),
             "large": (7e-6, 0.3)}  # fmt: skip
    for size, (rate, dropout) in sizes.items():
        text = f'extends deberta-v3-{size} task=glue(mnli, "a", examples=392702)'
        (stage,) = points(text)[0].stages
        assert (stage.optimizer.lr, stage.tasks[0].dropout) == (rate, dropout)
        assert abs(stage.warmup_steps / {"small": 1500, "large": 500}.get(size, 1000) - 1) < 0.01
    (large,) = points(f"extends deberta-v3-large {RTE}")[0].stages
    assert (large.optimizer.lr, large.warmup_steps, large.steps) == (1e-5, 50, 467)


@pytest.mark.parametrize("rule", get_args(get_args(Optimizer)[0])[:-1])
@pytest.mark.parametrize("family", SYSTEMS)
def test_a_written_optimizer_has_the_defaults_of_its_kind_and_nothing_of_the_recipe(family, rule):
    name = rule.model_fields["kind"].default
    for text, rate in (("", {}), ("(lr=1e-3)", {"lr": 1e-3})):
        for spec in (f"{RTE} optimizer={name}{text}",
                     f"optimizer={name}{text} stage 'a' {{ {RTE} }}"):  # fmt: skip
            (stage,) = bertc.resolve(f"recipe={family} {spec} steps=1k").stages
            assert stage.optimizer == rule(**rate)


def test_a_head_that_came_without_files_is_as_it_was_learned():
    (stage,) = bertc.resolve('recipe=electra task=read(dev="-") steps=9').stages
    assert stage.tasks[0].head == Plain()
    assert Read().train == ""


@pytest.mark.parametrize(("text", "pooler"), [
    (f"recipe=bert {RTE}", True), (f"recipe=distilbert {RTE}", "relu"),
    ('recipe=distilbert task=squad("a", examples=9)', False),
    (f"recipe=modernbert {RTE}", "transform"), (f"recipe=modernbert {TAGS}", "transform"),
    (f"recipe=eurobert {RTE}", "gelu-mean"), (f"recipe=eurobert {TAGS}", False),
    *((f"recipe={family} {RTE}", False) for family in ("electra", "xlm", "stackingbert")),
    (f"recipe=electra pooler=true {RTE}", True),
    (f"recipe=electra stage 'a' {{ objective=sop }} stage 'b' {{ {RTE} }}", True),
    (f"recipe=electra stage 'a' {{ objective=mlm }} stage 'b' {{ {RTE} }}", False),
])  # fmt: skip
def test_poolers_are_those_of_the_systems(text, pooler):
    assert bertc.resolve(text).encoder.pooler == pooler


def test_pairs_in_an_order_drawn_anew_are_half_as_many_passes_of_both_orders():
    (stage,) = bertc.resolve('recipe=stackingbert task=glue(qqp, "a", examples=6400)').stages
    assert (stage.tasks[0].both_orders, stage.steps) == (True, 2 * 6400 // 32)


@pytest.mark.parametrize("family", SYSTEMS)
def test_every_family_knows_every_kind(family):
    for task in ('squad("a", version=2, examples=9)', 'race("a", examples=9)',
                 'classify("a", labels=["x", "y"], examples=9)',
                 'tagging("a", labels=["O", "B-X"], examples=9)'):  # fmt: skip
        (stage,) = bertc.resolve(f"recipe={family} task={task}").stages
        assert stage.steps >= 1


@pytest.mark.parametrize("family", SYSTEMS)
def test_a_layout_that_follows_from_the_recipe_is_not_dumped(family):
    resolved = bertc.resolve(f"recipe={family} {RTE}")
    assert resolved.run.layout == ("electra" if family == "electra" else "auto")
    dumped = resolved.model_dump(mode="json")
    assert "layout" not in dumped["run"]
    assert Resolved.model_validate(dumped) == resolved
    other = {"electra": "auto"}.get(family, "electra")
    resolved = bertc.resolve(f"recipe={family} layout={other} {RTE}")
    assert Resolved.model_validate(resolved.model_dump(mode="json")).run.layout == other


TEXT = "stage 'a' { objective=mlm }"
OF_STAGES = [  # batch, seq and steps: 234 are 3 x 2,490 / 32, upwards
    (RTE, (), [(32, 128, 234)]),
    (f"{RTE} epochs=1 batch=10", (), [(10, 128, 249)]),
    (f"{RTE} steps=7", (), [(32, 128, 7)]),
    (f"{TEXT} stage 'b' {{ {RTE} seq=64 }} steps=100 batch=256 seq=32", (),
     [(256, 32, 100), (32, 64, 234)]),
    (f"{TEXT} stage 'b' {{ {RTE} seq=64 }} steps=100 seq=32", ("batch=8",),
     [(8, 32, 100), (8, 64, 934)]),
    (f"seq=48 steps=100 {TEXT} stage 'b' {{ {RTE} }}", (), [(256, 48, 100), (32, 48, 234)]),
    (f"batch=8 stage 'a' {{ {RTE} }} stage 'b' {{ {RTE} batch=16 }}", (),
     [(8, 128, 934), (16, 128, 467)]),
    (f"batch=8 seq=48 stage 'a' {{ {RTE} steps=5 }} stage 'b' {{ {RTE} seq=64 }}", (),
     [(8, 48, 5), (8, 64, 934)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sets", "wanted"), OF_STAGES)
def test_a_stage_has_the_recipe_of_its_task_and_what_is_written(text, sets, wanted):
    """Outside stages: the row length, and all settings of a chain of tasks."""
    stages = bertc.resolve(text, sets).stages
    assert [(stage.batch, stage.seq, stage.steps) for stage in stages] == wanted
    assert {stage.optimizer.lr for stage in stages if stage.tasks} == {5e-5}


def test_a_task_takes_the_network_of_a_base_and_not_its_training():
    """Of stages the deepest network; no generator, teacher, or batches that rise."""
    for name, layers, system in (
        ("modernbert-base", 22, "modernbert"), ("bert-stacked", 12, "stackingbert"),
        ("electra-small", 12, "electra"), ("distilbert", 6, "distilbert"),
    ):  # fmt: skip
        (found,) = points(f"extends {name} {RTE}")
        (stage,) = found.stages
        assert (len(found.encoder.layers), found.run.recipe) == (layers, system)
        theirs = Published(system, 768).recipe(stage.tasks[0])
        assert (stage.optimizer, stage.batch) == (theirs["optimizer"], theirs["batch"])
        assert stage.steps == math.ceil(theirs["epochs"] * 2490 / stage.batch)


def test_a_task_keeps_the_training_of_a_base_that_names_tasks_or_nothing(tmp_path):
    (tmp_path / "mine.bertc").write_text(f"{RTE} batch=8 epochs=5")
    (tmp_path / "a.bertc").write_text("extends './mine.bertc' task=glue(cola, 'a', examples=80)")
    (stage,) = points(str(tmp_path / "a.bertc"))[0].stages
    assert (stage.batch, stage.steps) == (8, 50)
    (found,) = points(f"extends prune-ffn init=random {RTE}")
    assert [stage.name for stage in found.stages] == ["prune", "again"]
