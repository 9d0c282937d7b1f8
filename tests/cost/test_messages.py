"""Messages between devices: closed forms of rings, and what computing hides of them."""

import pytest

from bertc.api import resolve
from bertc.cost import estimate
from bertc.cost.figures import Spread
from bertc.cost.messages import LINK_SHARE, Links, not_hidden

RATE, GIB = 100e9, 2**30
LARGE = "layers=24 hidden=1024 heads=16 vocab=30522 optimizer=lamb steps=1000"


def test_a_ring_costs_nothing_alone_and_tends_to_its_bandwidth() -> None:
    alone = Links(1, 1, RATE, RATE)
    assert alone.inside(GIB) == alone.between(GIB) == 0
    limit = GIB / (LINK_SHARE * RATE)
    inside = [Links(1, n, RATE, RATE).inside(GIB) / limit for n in (2, 4, 8, 64)]
    assert inside == pytest.approx([1 / 2, 3 / 4, 7 / 8, 63 / 64], abs=0.02)
    assert inside == sorted(inside)
    assert Links(10**6, 1, RATE, RATE).between(100 * GIB) == pytest.approx(100 * limit, rel=1e-3)
    # Between machines each device sends its part, over a link of its own.
    assert Links(2, 8, RATE, RATE / 8).between(GIB) == pytest.approx(limit / 2, rel=0.02)


@pytest.mark.parametrize(
    ("work", "waits"),
    [
        ([], 0),
        ([(5, 1)], 1),
        ([(1, 1), (1, 1), (1, 1)], 1),
        ([(1, 2), (1, 2), (1, 2)], 4),
        ([(0, 2), (0, 3)], 5),
        ([(1, 3), (9, 0)], 0),
    ],
)
def test_messages_hide_behind_later_computing(work: list[tuple[float, float]], waits: int) -> None:
    assert not_hidden(work) == waits


def spread_on(devices: int, spec: str, device: str = "a100") -> tuple[Spread, float]:
    found = estimate(resolve(f"{LARGE} seq=128 {spec}"), device, devices=devices)
    assert found.spread is not None
    return found.spread, found.spread.exposed_seconds / found.time.seconds_per_step


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "hsdp"])
def test_more_devices_never_wait_less_for_the_same_work_each(strategy: str) -> None:
    found = [
        spread_on(8 * n, f"strategy={strategy} microbatch=32 batch={8 * 32 * n}")
        for n in (1, 2, 8, 128)
    ]
    shares = [share for _, share in found]
    assert shares[0] > 0
    assert shares == sorted(shares)
    assert shares[-1] < 0.2
    assert all(0 < one.exposed_seconds <= one.communication_seconds for one, _ in found)


def test_slower_links_and_smaller_batches_hide_less() -> None:
    base = "strategy=ddp microbatch=32 batch=512"
    for slower in ("a100,network=1", "a100,link=1"):
        assert spread_on(16, base, slower)[1] > 5 * spread_on(16, base)[1]
    assert spread_on(16, base)[0].exposed_seconds < spread_on(16, "batch=16")[0].exposed_seconds


@pytest.mark.parametrize(
    ("rows", "nodes", "published"),
    [
        ("seq=128 batch=65536 microbatch=256", 16, 15.50),
        ("seq=128 batch=65536 microbatch=256", 32, 30.37),
        ("seq=512 batch=32768 microbatch=32", 32, 30.13),
    ],
)
def test_nodes_speed_up_bert_large_as_published(rows: str, nodes: int, published: float) -> None:
    """NVIDIA DeepLearningExamples, PyTorch BERT README: DGX A100 80GB, multi-node scaling."""
    program = resolve(f"{LARGE} {rows}")
    one, many = (estimate(program, "a100", devices=8 * n).time for n in (1, nodes))
    assert one.seconds_per_step / many.seconds_per_step == pytest.approx(published, rel=0.05)
