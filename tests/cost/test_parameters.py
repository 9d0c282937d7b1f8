"""Counts against the weight table, for every objective, and against published figures."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.cost import estimate
from bertc.ir.base import Weight
from bertc.ir.network.encoder import Encoder
from tests.kinds import FORMAT_KINDS, OBJECTIVES, TEXT_KINDS, UNIT_KINDS

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())

SHARED = [
    "share=all E=16", "share=attention norm=pre", "share=ffn segments=0",
    "share=groups(2) E=48 pooler=true", "share=map([0, 0, 2, 2], [0, 1, 1, 3])",
]  # fmt: skip


def applied_weights(encoder: Encoder) -> Iterator[Weight]:
    """A shared tensor once for every layer that applies it."""
    yield from encoder.embedding_weights()
    yield from encoder.common_weights()
    for attention, ffn in zip(encoder.attention_owner, encoder.ffn_owner, strict=True):
        yield from encoder.part_weights("attention", attention)
        yield from encoder.part_weights("ffn", ffn)
    yield from (w for w in encoder.weights() if w.name.startswith(("norm.", "pooler.")))


@pytest.mark.parametrize("extra", SHARED)
def test_what_layers_share_is_applied_by_each(extra: str) -> None:
    resolved = resolve(f"layers=4 hidden=32 vocab=100 seq=16 {extra}")
    found = estimate(resolved).parameters
    applied = sum(w.numel for w in applied_weights(resolved.encoder))
    assert found.applied == applied + found.heads


def test_a_stage_counts_what_it_trains() -> None:
    size = "layers=2 hidden=32 vocab=100 seq=16 generator=1 objective=mlm"
    stages = 'stage "tell" { objective=mlm } stage "find" { objective=rtd }'
    found = estimate(resolve(f"{size} {stages}"))
    tell, find = (stage.parameters for stage in found.stages)
    assert (tell.encoder, find.generator) == (0, 0)
    assert tell.total == find.encoder + tell.heads
    first, second = (stage.flops for stage in found.stages)
    assert first.train_per_example == 3 * first.forward_per_example
    # The generator works in the second stage too, and learns nothing there.
    assert second.train_per_example == 3 * second.forward_per_example - 2 * (
        first.forward_per_example
    )


@pytest.mark.parametrize("line", GOLDEN["parameters"])
def test_published_systems(line: str) -> None:
    name, *settings = line.split()
    found = estimate(resolve(name, settings)).parameters
    for part, expected in GOLDEN["parameters"][line].items():
        assert getattr(found, part) == expected


def test_every_cell_of_the_sharing_grid() -> None:
    found = {
        (str(p.encoder.embedding), p.encoder.attention_owner[-1], p.encoder.ffn_owner[-1]): p
        for p in points("albert-sharing-grid")
    }
    assert len(found) == 16
    owners = {"all": (0, 0), "attention": (0, 11), "ffn": (11, 0), "none": (11, 11)}
    for embedding, row in GOLDEN["sharing grid, encoder"].items():
        for shared, expected in row.items():
            point = found[embedding, *owners[shared]]
            assert estimate(point).parameters.encoder == expected


def test_every_number_of_groups() -> None:
    found = [estimate(point).parameters.encoder for point in points("albert-groups-grid")]
    assert found == list(GOLDEN["groups, encoder"].values())


def test_the_walk_meets_every_objective_unit_of_masking_and_format() -> None:
    toy = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10"
    stages = [resolve(f"{toy} {objective}").stages[0] for objective in OBJECTIVES.values()]
    masks = [term.objective.masks for stage in stages for term in stage.objective]
    assert {each.unit.kind for each in masks if each} == UNIT_KINDS
    assert {term.objective.kind for stage in stages for term in stage.objective} == TEXT_KINDS
    assert {stage.format.kind for stage in stages} == FORMAT_KINDS
