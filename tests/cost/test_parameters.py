"""Counts against the weight table, and against figures counted elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.cost import estimate
from bertc.ir.base import Weight
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.model import head_weights, model_weights

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())

SHAPES = [
    "",
    "share=all E=16",
    "share=attention norm=pre",
    "share=ffn segments=0",
    "share=groups(2) E=48 pooler=true",
    "share=map([0, 0, 2, 2], [0, 1, 1, 3])",
    "heads=[4, 2, 1, 8] head_dim=8 ffn=[64, 32, 16, 128]",
    "positions=learned(20, offset=2) segments=1",
    "norm=sandwich(function=rms) activation=geglu(bias=outer) head=linear(tied=false) E=16",
    "norm=pre(bias=false, embeddings=true, first=false) activation=swiglu share=ffn",
    "objective=mlm+sop",
    'objective=mlm+tlm language_embeddings=true head=linear data=pairs(en="a.en", fr="a.fr")',
    "objective=span+sbo format=single-segment",
]
TWO_NETWORKS = [
    "generator=0.5",
    "generator=network(0.25, tie=tokens) E=16",
    "generator=network(0.25, tie=none) share=all",
    "generator { layers=2 heads=4 } norm=pre segments=0",
    "generator=0.5 objective=rtd+span+sbo+sop",
]


def applied_weights(encoder: Encoder) -> Iterator[Weight]:
    """A shared tensor once for every layer that applies it."""
    yield from encoder.embedding_weights()
    yield from encoder.common_weights()
    for attention, ffn in zip(encoder.attention_owner, encoder.ffn_owner, strict=True):
        yield from encoder.part_weights("attention", attention)
        yield from encoder.part_weights("ffn", ffn)
    yield from (w for w in encoder.weights() if w.name.startswith(("norm.", "pooler.")))


@pytest.mark.parametrize("extra", SHAPES)
def test_counts_are_sums_over_the_weight_table(extra: str) -> None:
    resolved = resolve(f"layers=4 hidden=32 vocab=100 seq=16 {extra}")
    found = estimate(resolved).parameters
    heads = sum(w.numel for w in head_weights(resolved))
    assert found.total == sum(w.numel for w in model_weights(resolved))
    assert found.total == sum(found.by_part.values()) == found.encoder + found.heads
    assert found.encoder == found.embeddings + found.layers + found.pooler
    assert found.heads == heads
    assert found.applied == sum(w.numel for w in applied_weights(resolved.encoder)) + heads


@pytest.mark.parametrize("extra", TWO_NETWORKS)
def test_both_networks_are_counted_and_what_is_tied_once(extra: str) -> None:
    objective = "" if "objective" in extra else "objective=rtd*50+mlm"
    resolved = resolve(f"layers=4 hidden=32 vocab=100 seq=16 {objective} {extra}")
    found = estimate(resolved).parameters
    assert found.total == sum(w.numel for w in model_weights(resolved))
    assert found.total == sum(found.by_part.values())
    assert found.total == found.encoder + found.generator + found.heads
    assert found.encoder == sum(w.numel for w in resolved.encoder.weights())


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


PRE = "norm=pre(1e-5, bias=false, embeddings=true, first=false) activation=geglu(bias=false) "
MODERN = PRE + "head=transform(bias=false) segments=0 vocab=50368 "
LLAMA = "norm=pre(function=rms) activation=swiglu(bias=false) segments=0 "
MOSAIC = "activation=geglu(bias=outer) vocab=30528 "
TODAY = {
    # transformers 5.23 on the meta device; a masked-LM class, its tied table once
    "ModernBERT-base": (MODERN + "L=22 H=768 F=1152", 149_655_232),
    "ModernBERT-large": (MODERN + "L=28 H=1024 F=2624", 395_881_664),
    "Ettin-17m": (MODERN + "L=7 H=256 F=384", 16_913_600),
    "Ettin-1b": (MODERN + "L=28 H=1792 F=3840", 1_031_314_112),
    "mmBERT-small": (MODERN.replace("50368", "256k") + "L=22 H=384 F=1152", 140_897_536),
    "EuroBERT-210m": (
        LLAMA + "L=12 H=768 F=3072 vocab=128256 head=linear(bias=false, tied=false)",
        310_266_624,
    ),
    # by the official code's closed form
    "NeoBERT": (LLAMA + "L=28 H=768 F=2048 vocab=30522 head=linear(tied=false)", 245_136_954),
    "MosaicBERT-base": (MOSAIC + "L=12 H=768 F=3072", 137_400_384),
    "MosaicBERT-large": (MOSAIC + "L=24 H=1024 F=4096", 435_221_312),
}
"""Specs of published encoders and the numbers of their weights, masked-LM head included.

How they tell positions has no weights; all but MosaicBERT's attention has no biases.
"""


@pytest.mark.parametrize("name", TODAY)
def test_encoders_of_today_have_the_published_numbers_of_weights(name: str) -> None:
    spec, published = TODAY[name]
    weights = model_weights(resolve(f"{spec} positions=sinusoidal seq=128 pooler=false"))
    biases = sum(w.numel for w in weights if w.part == "attention" and w.role == "bias")
    mosaic = name.startswith("Mosaic")
    assert sum(w.numel for w in weights) - (0 if mosaic else biases) == published
