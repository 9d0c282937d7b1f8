"""Every kind of every union in the smallest network: built as counted, trained, or refused."""

import re
from contextlib import nullcontext, suppress
from typing import Literal

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import SpecError
from bertc.cost import estimate
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.target import target_of
from bertc.ir.network.body_setting import OF_TRANSFORMERS
from bertc.ir.network.positions import BucketedPositions
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.feed import to_inputs
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import make_step
from tests.kinds import NETWORKS, UNIONS, kinds_of

TOY = {
    "layers": 2, "hidden": 16, "heads": 2, "head_dim": 8, "ffn": 16, "vocab": 100, "seq": 32,
    "batch": 8, "steps": 4, "precision": "fp32",
}  # fmt: skip
ALWAYS_REFUSED = ("prune layers", "vocab tokenizer")
"""Kinds that need a network from before, or files."""
VARIANTS = {"even": "", "uneven": "heads=[2,4]", "packed": "pack=true"}
WALK = [
    pytest.param(f"{text} {more}", id=f"{union} {kind} {name}")
    for union, texts in NETWORKS.items()
    for kind, text in texts.items()
    for name, more in VARIANTS.items()
]


@pytest.mark.parametrize("union", NETWORKS)
def test_the_walk_meets_every_kind(union: str) -> None:
    assert {*NETWORKS[union]} == kinds_of(UNIONS[union])


def spec(text: str) -> str:
    """The toy with these settings, and without what they say themselves."""
    said = {*re.findall(r"(?:^| )(\w+)=", text), *(OF_TRANSFORMERS if "body=" in text else ())}
    return (
        " ".join(f"{name}={value}" for name, value in TOY.items() if name not in said) + " " + text
    )


@pytest.mark.parametrize("text", WALK)
def test_a_kind_is_counted_trained_and_exported_or_refused(
    text: str, request: pytest.FixtureRequest
) -> None:
    kind, _, variant = request.node.callspec.id.rpartition(" ")
    if kind in ALWAYS_REFUSED:
        with pytest.raises(SpecError):
            resolve(spec(text))
        return
    with nullcontext() if variant == "even" else suppress(SpecError):
        _built_and_trained(resolve(spec(text), ["microbatch=4"]))


def _built_and_trained(resolved: Resolved) -> None:
    step, text = make_step(resolved, 4), RandomText(resolved.stages[0], 100)
    built = sum(parameter.numel() for parameter in build(resolved, device="meta").parameters())
    assert estimate(resolved, "h200").parameters.total == built
    for number in range(2):
        micro_batches = step.read(to_inputs(text.train(number), torch.device("cpu"))).micro_batches
        step.gradients(micro_batches, number)
    names = [weight.name for weight in model_weights(resolved)]
    chosen = target_of(resolved, names, pad=0)
    if isinstance(chosen, Obstacle):
        assert chosen.setting
        assert chosen.why


class Buckets(BucketedPositions):
    """A kind that states no more than its table: layers have to have as many heads."""

    kind: Literal["buckets"] = "buckets"  # type: ignore[assignment]
    positional = ("buckets", "distance")


def test_what_a_kind_shares_by_head_and_the_ranges_of_its_table_follow_from_its_weights() -> None:
    toy = Buckets(rows=32, buckets=32, distance=8)
    assert toy.ties_biases
    assert toy.ranges.problem.endswith("distance = 8 leaves nothing to the others")
    assert not Buckets(rows=32, buckets=32, distance=toy.ranges.least).ranges.problem


@pytest.mark.parametrize("kind", NETWORKS["share"])
def test_a_sharing_keeps_its_name(kind: str) -> None:
    """Two layers in a group are all, each in its own none."""
    names = {"groups": "all", "map": "none"}
    said = resolve(spec(NETWORKS["share"][kind])).encoder.settings()["share"]
    assert said.kind == names.get(kind, kind)
