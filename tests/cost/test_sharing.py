"""Several devices: what one of them holds, how the state is laid out, and what messages cost."""

import json

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import UsageError
from bertc.cost import as_json, as_table, estimate, largest_microbatches, layout_on
from bertc.cost.planning.plan import Fit, Machine, plan
from bertc.cost.planning.world import Layout, World
from bertc.cost.processes import LINK_SHARE, Links, not_hidden

GIB = 2**30
CARD = Machine("cuda", "a card", 79 * GIB, fast_bf16=True, cores=8)
HUGE = "layers=32 hidden=4096 seq=512 steps=10k batch=256"


def test_a_small_model_is_held_whole_by_each() -> None:
    one, eight = (estimate(resolve("bert-base"), devices=n) for n in (1, 8))
    assert one == estimate(resolve("bert-base"))
    assert "spread" not in json.loads(as_json([one]))
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
    for world, parts in (
        (World(32, 8), ("hsdp", 8, 4)), (World(4, 1), ("fsdp", 4, 1)),
        (World(8, 8), ("fsdp", 8, 1)),
    ):  # fmt: skip
        layout = layout_on(resolved, CARD.memory_bytes, world)
        assert (layout.strategy, layout.shards, layout.copies) == parts
    assert "more than 60%" in layout.reason
    assert largest_microbatches(resolved, CARD, layout)[0].examples > 0
    found = estimate(resolved, "h100", devices=8).memory
    assert found.optimizer_bytes == 8 * estimate(resolved).parameters.total // 8
    assert found.peak_bytes < 79 * GIB


@pytest.mark.parametrize(("spec", "world", "strategy"), [
    ("extends bert-base strategy=fsdp", World(8, 8), "fsdp"),
    ("extends bert-base strategy=fsdp", World(), "single"),
    (f"{HUGE} strategy=ddp", World(8, 8), "ddp"),
])  # fmt: skip
def test_a_stated_strategy_is_followed(spec: str, world: World, strategy: str) -> None:
    assert layout_on(resolve(spec), CARD.memory_bytes, world).strategy == strategy


def test_layers_of_parts_are_compiled_and_more_devices_than_examples_refused() -> None:
    sharded, fit = Layout(World(8, 8), "fsdp"), Fit(8, 8, recompute=False)
    assert plan(resolve("extends bert-base compile=on"), CARD, (fit, fit), sharded).compile
    with pytest.raises(UsageError, match="batch of 256 examples cannot be shared by 512"):
        estimate(resolve("bert-base"), devices=512)


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


RATE = 100e9
LIMIT = GIB / (LINK_SHARE * RATE)
LARGE = "layers=24 hidden=1024 heads=16 vocab=30522 optimizer=lamb steps=1000"


def test_a_ring_tends_to_its_bandwidth_and_messages_hide_behind_later_computing():
    alone = Links(1, 1, RATE, RATE)
    assert alone.seconds_inside(GIB) == alone.seconds_between(GIB) == 0
    inside = [Links(1, n, RATE, RATE).seconds_inside(GIB) / LIMIT for n in (2, 4, 8, 64)]
    assert inside == pytest.approx([1 / 2, 3 / 4, 7 / 8, 63 / 64], abs=0.02)
    assert Links(10**6, 1, RATE, RATE).seconds_between(100 * GIB) == pytest.approx(
        100 * LIMIT, rel=1e-3
    )
    # Between machines each device sends its part, over a link of its own.
    assert Links(2, 8, RATE, RATE / 8).seconds_between(GIB) == pytest.approx(LIMIT / 2, rel=0.02)
    for work, waits in (
        ([], 0), ([(5, 1)], 1), ([(1, 1), (1, 1), (1, 1)], 1), ([(1, 2), (1, 2), (1, 2)], 4),
        ([(0, 2), (0, 3)], 5), ([(1, 3), (9, 0)], 0),
    ):  # fmt: skip
        assert not_hidden(work) == waits


def waiting(devices, spec, device="a100"):
    """The share of a step that waits for messages."""
    found = estimate(resolve(f"{LARGE} seq=128 {spec}"), device, devices=devices)
    assert 0 < found.spread.exposed_seconds <= found.spread.communication_seconds
    return found.spread.exposed_seconds / found.time.seconds_per_step


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "hsdp"])
def test_more_devices_or_slower_links_never_wait_less_for_the_same_work(strategy):
    spec = f"strategy={strategy} microbatch=32 batch="
    shares = [waiting(8 * n, f"{spec}{8 * 32 * n}") for n in (1, 2, 8, 128)]
    assert shares == sorted(shares)
    assert shares[-1] < 0.2 < waiting(16, f"{spec}512", "a100,link=1")


@pytest.mark.parametrize(
    ("rows", "nodes", "published"),
    [("128 batch=65536 microbatch=256", 16, 15.50), ("128 batch=65536 microbatch=256", 32, 30.37),
     ("512 batch=32768 microbatch=32", 32, 30.13)],
)  # fmt: skip
def test_nodes_speed_up_bert_large_as_published(rows, nodes, published):
    """NVIDIA DeepLearningExamples, PyTorch BERT README: DGX A100 80GB, multi-node scaling."""
    program = resolve(f"{LARGE} seq={rows}")
    one, many = (estimate(program, "a100", devices=8 * n).time for n in (1, nodes))
    assert one.seconds_per_step / many.seconds_per_step == pytest.approx(published, rel=0.05)
