"""The estimate of every objective: beside what is really made of a batch, and beside its equals."""

import pytest
import torch

from bertc.api import resolve
from bertc.cost.blocks import kept_by
from bertc.cost.execution import Execution
from bertc.cost.rules import cost
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.node import weights_of_head
from tests.kinds import FORMAT_KINDS, OBJECTIVES, PAIRS, TEXT_KINDS, UNIT_KINDS

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10"
CPU = torch.device("cpu")
EAGER = Execution("cpu", "fp32", compiled=False)


def of(objective: str, *overrides: str) -> Resolved:
    return resolve(f"{TOY} {objective}", overrides)


def test_the_walk_meets_every_objective_unit_of_masking_and_format() -> None:
    stages = [of(objective).stages[0] for objective in OBJECTIVES.values()]
    masks = [term.objective.masks for stage in stages for term in stage.objective]
    assert {each.unit.kind for each in masks if each} == UNIT_KINDS
    assert {term.objective.kind for stage in stages for term in stage.objective} == TEXT_KINDS
    assert {stage.format.kind for stage in stages} == FORMAT_KINDS


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_no_head_is_forgotten(objective: str) -> None:
    stage = of(objective).stages[0]
    for network in stage.networks():
        heads = network.head_operations(1)
        tokens = [t.objective for t in network.terms if t.objective.scored == "tokens"]
        learned = [one for one in network.scored if network.terms]
        weights = [
            {weight.name for weight in weights_of_head(one, network.body)} for one in learned
        ]
        assert (network.vocabulary_heads > 0) == bool(tokens)
        assert network.vocabulary_heads == sum(
            bool(own & {"mlm.bias", "sbo.bias", "clm.bias", "plm.bias", "restore.bias"})
            for own in weights
        )
        assert kept_by(heads, EAGER) > 0 or not network.learned
        assert sum(cost(each, EAGER).flops for each in heads) > 0
        named = {term.objective.head_name for term in network.terms}
        assert {one.head_name for one in network.scored} >= named


ALIKE = [
    ("objective=mlm format=full-sentences segments=2", f"objective=tlm {PAIRS}"),
    (f"objective=tlm {PAIRS}", f'objective=mlm+tlm {PAIRS}+files("a.txt")'),
    ("objective=span+sbo format=single-segment", f"objective=tlm(unit=span)+sbo {PAIRS}"),
    ("objective=mlm+nsp", "objective=mlm+sop"),
    ("objective=rtd*50+mlm generator=0.5", f"objective=rtd*50+tlm generator=0.5 {PAIRS}"),
    ("objective=mlm(p=100%) head=linear", "objective=clm head=linear"),
]
