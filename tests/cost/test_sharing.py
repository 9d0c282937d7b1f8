"""Several devices: what one of them holds, how the state is laid out, and what talking costs."""

import json

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import UsageError
from bertc.cost import as_json, as_table, estimate, largest_microbatches, layout_on
from bertc.cost.planning.plan import Fit, Machine, plan
from bertc.cost.planning.world import Layout, World

GIB = 2**30
CARD = Machine("cuda", "a card", 79 * GIB, fast_bf16=True, cores=8)
HUGE = "layers=32 hidden=4096 seq=512 steps=10k batch=256"


def test_one_device_is_no_spread() -> None:
    found = estimate(resolve("bert-base"))
    assert found == estimate(resolve("bert-base"), devices=1)
    assert "spread" not in json.loads(as_json([found]))


def test_a_small_model_is_held_whole_by_each() -> None:
    one, eight = (estimate(resolve("bert-base"), devices=n) for n in (1, 8))
    assert eight.spread is not None
    assert (eight.spread.devices, eight.spread.per_host, eight.spread.strategy) == (8, 8, "ddp")
    assert eight.memory.weights_bytes == one.memory.weights_bytes
    # Messages take a GiB of each device, and gradients stay.
    assert 0.98 < eight.memory.largest_microbatch / one.memory.largest_microbatch < 1
    assert eight.memory.microbatch == one.memory.microbatch / 8
    talk = eight.spread.communication_seconds
    # Seven eighths of all gradients go round twice, in thirteen messages.
    rings = 2 * 7 / 8 * 4 * one.parameters.total / (0.8 * 450e9)
    assert talk == pytest.approx(rings + 13 * 2 * 7 * 3.4e-6, rel=0.02)
    # Each updates all weights, and asks for all kernels; the token table is the last to be sent.
    large = resolve("extends bert-base batch=2048 microbatch=256")
    alone, shared = (estimate(large, devices=n) for n in (1, 8))
    assert shared.spread is not None
    least = alone.time.seconds_per_step / 8 + shared.spread.exposed_seconds
    assert least < shared.time.seconds_per_step < 1.25 * least
    assert 0.15 * talk < shared.spread.exposed_seconds < 0.3 * talk
    step = eight.stages[0].time.seconds_per_step
    assert sum(part.seconds for part in eight.stages[0].where) == pytest.approx(step)
    text = as_table([eight])
    assert "ddp on 8 devices" in text
    assert "messages, a step" in text
    assert json.loads(as_json([eight]))["spread"]["strategy"] == "ddp"


def test_a_large_one_is_cut_into_parts_where_that_helps() -> None:
    resolved = resolve(HUGE)
    assert largest_microbatches(resolved, CARD)[0].examples == 0
    machine = layout_on(resolved, CARD.memory_bytes, World(8, 8))
    machines = layout_on(resolved, CARD.memory_bytes, World(32, 8))
    single = layout_on(resolved, CARD.memory_bytes, World(4, 1))
    assert (machine.strategy, machine.shards, machine.copies) == ("fsdp", 8, 1)
    assert (machines.strategy, machines.shards, machines.copies) == ("hsdp", 8, 4)
    assert (single.strategy, single.shards, single.copies) == ("fsdp", 4, 1)
    assert "more than 60%" in machine.reason
    assert largest_microbatches(resolved, CARD, machine)[0].examples > 0
    found = estimate(resolved, "h100", devices=8).memory
    assert found.optimizer_bytes == 8 * estimate(resolved).parameters.total // 8
    assert found.peak_bytes < 79 * GIB


@pytest.mark.parametrize(
    ("spec", "world", "strategy"),
    [
        ("extends bert-base strategy=fsdp", World(8, 8), "fsdp"),
        ("extends bert-base strategy=fsdp", World(), "single"),
        (f"{HUGE} strategy=ddp", World(8, 8), "ddp"),
    ],
)
def test_what_was_asked_for_is_done(spec: str, world: World, strategy: str) -> None:
    assert layout_on(resolve(spec), CARD.memory_bytes, world).strategy == strategy


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="batch of 256 examples cannot be shared by 512"):
        estimate(resolve("bert-base"), devices=512)


def test_a_layer_of_parts_is_compiled_as_one_of_whole_weights() -> None:
    sharded, fit = Layout(World(8, 8), "fsdp"), Fit(8, 8, recompute=False)
    assert plan(resolve("extends bert-base compile=on"), CARD, (fit, fit), sharded).compile


def test_what_layers_share_stays_whole() -> None:
    """ALBERT's layers are one, and gathered once; of BERT's two are there at a time."""

    def whole(spec: str) -> int:
        found = estimate(resolve(f"{spec} strategy=fsdp"), "h100", devices=8)
        return found.memory.weights_bytes - 4 * (found.parameters.total // 8)

    albert, bert = estimate(resolve("albert-base")).parameters, resolve("bert-base")
    assert whole("extends albert-base") == 4 * albert.total
    layers = estimate(bert).parameters.layers
    rest = estimate(bert).parameters.total - layers
    assert whole("extends bert-base") == 4 * rest + 2 * 2 * layers // 12


@pytest.mark.parametrize(("batch", "size"), [(8, 3), (8, 8), (256, 7), (10, 4)])
def test_rows_are_neighbours_even_and_all(batch: int, size: int) -> None:
    world = World(size, size)
    parts = [list(range(batch))[world.rows(rank, batch)] for rank in range(size)]
    assert sum(parts, []) == list(range(batch))
    assert max(map(len, parts)) == world.share(batch)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
