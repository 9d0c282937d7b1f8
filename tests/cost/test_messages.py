"""Messages between devices: closed forms of rings, and what computing hides of them."""

import pytest

from bertc.api import resolve
from bertc.cost import estimate
from bertc.cost.messages import LINK_SHARE, Links, not_hidden

RATE, GIB = 100e9, 2**30
LIMIT = GIB / (LINK_SHARE * RATE)
LARGE = "layers=24 hidden=1024 heads=16 vocab=30522 optimizer=lamb steps=1000"


def test_a_ring_costs_nothing_alone_and_tends_to_its_bandwidth():
    alone = Links(1, 1, RATE, RATE)
    assert alone.inside(GIB) == alone.between(GIB) == 0
    inside = [Links(1, n, RATE, RATE).inside(GIB) / LIMIT for n in (2, 4, 8, 64)]
    assert inside == pytest.approx([1 / 2, 3 / 4, 7 / 8, 63 / 64], abs=0.02)
    assert Links(10**6, 1, RATE, RATE).between(100 * GIB) == pytest.approx(100 * LIMIT, rel=1e-3)
    # Between machines each device sends its part, over a link of its own.
    assert Links(2, 8, RATE, RATE / 8).between(GIB) == pytest.approx(LIMIT / 2, rel=0.02)


def test_messages_hide_behind_later_computing():
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
