"""Rows whose text runs backward, and memories that move on by a part of a row.

Axes: b rows, s tokens, h hidden.
"""

import pytest
import torch

from bertc.api import resolve
from bertc.ir.learning.objective import Plm
from bertc.learn.objectives import corrupt
from bertc.model import EncoderInputs, Memory, Model, PermutationMask
from tests.learn.material import rows, vocab
from tests.model import material
from tests.model.material import assert_counted, drawn

B, S = 4, 12
BASE = "hidden=16 heads=2 vocab=1000 segments=0 head=linear seq=12 objective=plm "
ROWS = "format=stream-pair(reuse=6, both_ways=true) memory=9 "
KINDS = [
    "attention=relative(untie=true, segments=true) norm=post(embeddings=false)",
    "attention=relative norm=pre share=all E=8",
    "attention=relative(clamp=4)",
]


def made(extra: str, layers: int = 3) -> Model:
    return drawn(resolve(f"layers={layers} {BASE}{ROWS}{extra}"))


def reading(backward: list[int] | None) -> EncoderInputs:
    inputs = rows(B, S, full=True, pairs=False)
    segments = (torch.arange(S) // 5).expand(B, S)
    turned = None if backward is None else torch.tensor(backward)
    return EncoderInputs(inputs.token_ids, segments, backward=turned)


def turned(order: PermutationMask) -> PermutationMask:
    return PermutationMask(
        order.rank.flip(1), order.visible_below.flip(1), S - 1 - order.target_positions
    )


@pytest.mark.parametrize("extra", KINDS)
def test_a_backward_row_is_the_row_turned_round_and_read_forward(extra):
    model = made(extra)
    generator = torch.Generator().manual_seed(2)
    rank = torch.rand(B, S, generator=generator).argsort(1)
    order = PermutationMask(rank, rank, torch.tensor([[0, 3, 7, 8]] * B))
    some = reading([0, 1, 1, 0])
    whole = EncoderInputs(some.token_ids.flip(1), some.segment_ids.flip(1))
    forward, expected = model.read(some._replace(backward=None)), model.read(whole).flip(1)
    found = model.read(some)
    torch.testing.assert_close(found[[0, 3]], forward[[0, 3]], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[[1, 2]], expected[[1, 2]], atol=1e-5, rtol=1e-4)
    assert (found[1] - forward[1]).abs().max() > 1e-3
    # In an order, of those told alone.
    asked = torch.arange(S, S + 4).expand(B, 4)
    found = model.read(some._replace(permutation=order, output_positions=asked))
    expected = model.read(whole._replace(permutation=turned(order), output_positions=asked))
    torch.testing.assert_close(found[[1, 2]], expected[[1, 2]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("extra", KINDS)
def test_backward_a_memory_stands_after_the_text(extra):
    # All that a row may see at once: with what it remembers it is one longer row.
    model = made(extra, layers=1)
    some = reading([1] * B)
    embedded = model.encoder.embeddings(some._replace(permutation=None), torch.float32)
    memory = Memory(embedded[None, :, :5], torch.tensor(5))
    later = EncoderInputs(
        some.token_ids[:, 5:], torch.zeros(B, S - 5, dtype=torch.long), backward=some.backward
    )
    one = some._replace(segment_ids=torch.zeros(B, S, dtype=torch.long))
    found = model.read(later._replace(memory=memory))
    torch.testing.assert_close(found, model.read(one)[:, 5:], atol=1e-5, rtol=1e-4)


def test_what_is_told_next_has_not_been_seen():
    model = made(KINDS[0])
    stage = model.resolved.stages[0]
    inputs = rows(B, S, full=True, pairs=False)._replace(backward=torch.arange(B) % 2)
    other = inputs.token_ids.clone()
    other[:, 6:] = (other[:, 6:] + 13) % 600 + 10
    empty = Memory(torch.zeros(3, B, 9, 16), torch.tensor(0), 6)
    after = []
    for ids in (inputs.token_ids, other):
        batch = corrupt(stage, inputs._replace(token_ids=ids), vocab(), 1)
        moved = model.read_on(batch.reading._replace(memory=empty)).memory
        assert moved is not None
        assert moved.filled == 6
        after.append(moved)
    torch.testing.assert_close(after[0].states, after[1].states, atol=0, rtol=0)
    assert after[0].states[1:, :, 3:].abs().min() > 0
    batch = corrupt(stage, inputs, vocab(), 2)
    moved = model.read_on(batch.reading._replace(memory=after[0])).memory
    assert moved is not None
    assert (moved.filled, moved.advance) == (9, 6)
    # Nine positions remembered: of six the last three, and the next six.
    torch.testing.assert_close(moved.states[:, :, :3], after[0].states[:, :, 6:], atol=0, rtol=0)


@pytest.mark.parametrize("extra", KINDS)
def test_products_are_those_that_torch_counts(extra):
    resolved = resolve(f"layers=3 {BASE}{ROWS}{extra} {material.ROWS}")
    assert isinstance(resolved.stages[0].objective[0].objective, Plm)
    assert_counted(resolved, train=1e-3)
