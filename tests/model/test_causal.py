"""Encoders in which no token sees a later one, and what rows remember."""

import math

import pytest
import torch

from bertc.api import points, resolve
from bertc.learn.objectives import corrupt
from bertc.model import EncoderInputs, Memory, Model, PermutationMask
from bertc.model.attention.masks import mask_of
from tests.learn.material import rows, vocab
from tests.model.material import assert_alone, drawn
from tests.model.test_relative import wave

SIZE = "layers=2 hidden=16 heads=2 ffn=32 vocab=100 seq=12 segments=0 "


def model_of(extra: str = "") -> Model:
    (resolved,) = points(SIZE + extra + " objective=clm" * ("mlm" not in extra))
    return drawn(resolved, 0.3)


def ids() -> torch.Tensor:
    return torch.arange(24).view(2, 12) * 7 % 89


@pytest.mark.parametrize("dropout", [0, 0.1])
@pytest.mark.parametrize("extra", ["", "norm=pre", "share=all E=8"])
def test_later_tokens_change_nothing(extra, dropout):
    model = model_of(f"{extra} dropout={dropout}").train()
    before, after = ids(), ids()
    after[:, 7:] += 1
    torch.manual_seed(0)
    one = model.encode(before)
    torch.manual_seed(0)
    other = model.encode(after)
    torch.testing.assert_close(one[:, :7], other[:, :7])
    assert not torch.allclose(one[:, 7:], other[:, 7:])


def test_padding_packing_and_few_outputs_hide_nothing_else():
    assert_alone(model_of("positions=learned(24)"), 7)


RELATIVE = "attention=relative norm=post(1e-5, embeddings=false) "


def carried(model: Model, token_ids: torch.Tensor, seq: int, length: int) -> torch.Tensor:
    """States of a text read in pieces of ``seq``, so many positions remembered between them."""
    node = model.resolved.encoder
    empty = torch.zeros(len(node.layers), len(token_ids), length, node.hidden)
    memory: Memory | None = Memory(empty, torch.tensor(0))
    states = []
    for piece in token_ids.split(seq, dim=1):
        found = model.read_on(EncoderInputs(piece, memory=memory))
        states.append(found.last)
        memory = found.memory
    return torch.cat(states, dim=1)


@pytest.mark.parametrize(
    "extra", ["", "attention=relative(untie=true) norm=pre", "share=all", "share=attention E=8"]
)
@pytest.mark.parametrize(("seq", "length"), [(3, 12), (5, 20), (12, 12), (1, 11)])
def test_with_the_past_remembered_pieces_are_one_long_pass(extra, seq, length):
    model = model_of(RELATIVE * ("relative" not in extra) + extra)
    whole = model.encode(ids())
    pieces = carried(model, ids(), seq, length)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=1e-5)


def test_no_gradient_goes_into_a_memory():
    model = model_of(RELATIVE)
    memory = Memory(torch.zeros(2, 2, 8, 16), torch.tensor(0))
    memory = model.read_on(EncoderInputs(ids(), memory=memory)).memory
    assert memory is not None
    assert not memory.states.requires_grad
    assert memory.filled == 8


def test_states_asked_for_have_the_same_memory():
    model = model_of(RELATIVE)
    memory = Memory(torch.zeros(2, 2, 9, 16), torch.tensor(0))
    memory = model.read_on(EncoderInputs(ids()[:, :5], memory=memory)).memory
    rest, asked = EncoderInputs(ids()[:, 5:], memory=memory), torch.tensor([[3, 6], [0, 4]])
    states, whole = model.read(rest._replace(output_positions=asked)), model.read(rest)
    torch.testing.assert_close(states, whole[torch.arange(2)[:, None], asked], atol=1e-5, rtol=1e-5)


def test_both_sides_and_a_memory_go_together():
    model = model_of("attention=relative objective=mlm format=stream memory=5")
    assert not model.resolved.encoder.causal
    two = carried(model, ids(), 6, 6)
    torch.testing.assert_close(two[:, :6], model.encode(ids()[:, :6]), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(two[:, 6:], model.encode(ids()[:, 6:]), atol=1e-3)


def by_hand(model: Model, token_ids: list[int], seq: int, length: int) -> torch.Tensor:
    """Transformer-XL's states of one text, pair by pair, layer by layer, from the paper's formulas.

    A token sees what stands in its own piece of ``seq`` up to itself, and ``length`` tokens before
    the piece.
    """
    w = {n.removeprefix("encoder."): p.detach() for n, p in model.named_parameters()}
    node = model.resolved.encoder
    x = [w["embeddings.token.weight"][token] * node.hidden**0.5 for token in token_ids]
    u, v = w["relative.content_bias"], w["relative.distance_bias"]

    def norm(y: torch.Tensor, name: str) -> torch.Tensor:
        centred = y - y.mean()
        scaled = centred / (centred.square().mean() + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    for layer in range(len(node.layers)):
        a, f = f"attention.{layer}", f"ffn.{layer}"
        after = []
        for i, asking in enumerate(x):
            first = max(0, i // seq * seq - length)
            mixed = []
            for head in range(2):
                d = slice(8 * head, 8 * head + 8)
                q = (w[f"{a}.query.weight"] @ asking)[d]
                scores, values = [], []
                for j in range(first, i + 1):
                    k = (w[f"{a}.key.weight"] @ x[j])[d]
                    r = (w[f"{a}.distance.weight"] @ wave(i - j, 0))[d]
                    scores.append(((q + u[d]) @ k + (q + v[d]) @ r) / math.sqrt(8))
                    values.append((w[f"{a}.value.weight"] @ x[j])[d])
                mixed.append(torch.stack(scores).softmax(0) @ torch.stack(values))
            y = norm(asking + w[f"{a}.output.weight"] @ torch.cat(mixed), f"{a}.norm")
            inner = (w[f"{f}.inner.weight"] @ y + w[f"{f}.inner.bias"]).relu()
            outer = w[f"{f}.outer.weight"] @ inner + w[f"{f}.outer.bias"]
            after.append(norm(y + outer, f"{f}.norm"))
        x = after
    return torch.stack(x)


@pytest.mark.parametrize(("seq", "length"), [(12, 0), (4, 3), (4, 8), (3, 12)])
def test_the_model_is_its_formulas(seq, length):
    model = model_of(RELATIVE + "activation=relu table=whole(scaled=true)")
    found = carried(model, ids(), seq, length) if length else model.encode(ids())
    for row in range(2):
        expected = by_hand(model, ids()[row].tolist(), seq, length)
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)


def test_every_token_may_see_as_many():
    model = model_of(RELATIVE)
    memory = Memory(torch.zeros(2, 2, 4, 16), torch.tensor(0))
    memory = model.read_on(EncoderInputs(ids()[:, :8], memory=memory)).memory
    assert memory is not None
    memory = memory._replace(same_length=True)
    allowed = mask_of(EncoderInputs(ids()[:, 8:], memory=memory, causal=True)).allowed
    assert allowed is not None
    assert allowed.sum(3).tolist() == [[[4, 4, 4, 4]]]
    assert allowed[0, 0, 1].nonzero()[:, 0].tolist() == [2, 3, 4, 5]


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
    # In an order, of those predicted alone.
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


def test_predicted_tokens_have_not_been_read():
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
