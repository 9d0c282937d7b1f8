"""Encoders in which no token sees a later one, and what rows remember."""

import pytest
import torch

from bertc.api import points, resolve
from bertc.learn.objectives import corrupt
from bertc.model import EncoderInputs, Memory, Model, PermutationMask
from bertc.model.attention.masks import mask_of
from tests.learn.material import rows, vocab
from tests.model.material import assert_alone, drawn
from tests.model.test_relative import attended


def model_of(extra: str = "") -> Model:
    size = "layers=2 hidden=16 heads=2 ffn=32 vocab=100 seq=12 segments=0 "
    (resolved,) = points(size + extra + " objective=clm" * ("mlm" not in extra))
    return drawn(resolved, 0.3)


def ids() -> torch.Tensor:
    return torch.arange(24).view(2, 12) * 7 % 89


@pytest.mark.parametrize("dropout", [0, 0.1])
@pytest.mark.parametrize("extra", ["", "norm=pre", "share=all E=8"])
def test_later_tokens_change_nothing(extra, dropout):
    model, read = model_of(f"{extra} dropout={dropout}").train(), []
    for later in (0, 1):
        torch.manual_seed(0)
        read.append(model.encode(ids() + later * (torch.arange(12) >= 7)))
    torch.testing.assert_close(read[0][:, :7], read[1][:, :7])
    assert not torch.allclose(read[0][:, 7:], read[1][:, 7:])


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
    torch.testing.assert_close(carried(model, ids(), seq, length), whole, atol=1e-5, rtol=1e-5)


def remembered(model: Model, length: int, token_ids: torch.Tensor) -> Memory:
    """What rows that begin with these tokens remember."""
    memory = Memory(torch.zeros(2, 2, length, 16), torch.tensor(0))
    return model.read_on(EncoderInputs(token_ids, memory=memory)).memory


def test_no_gradient_goes_into_a_memory_and_states_asked_for_have_the_same():
    model = model_of(RELATIVE)
    memory = remembered(model, 8, ids())
    assert (memory.states.requires_grad, memory.filled) == (False, 8)
    memory = remembered(model, 9, ids()[:, :5])
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
    w = {n.removeprefix("encoder."): p for n, p in model.named_parameters()}
    x = w["embeddings.token.weight"][token_ids] * 16**0.5
    of_one_text = torch.zeros(len(x))

    def seen(place: int) -> range:
        return range(max(0, place // seq * seq - length), place + 1)

    def norm(y: torch.Tensor, name: str) -> torch.Tensor:
        centred = y - y.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    for layer in range(2):
        a, f = f"attention.{layer}", f"ffn.{layer}"
        y = norm(x + attended(model, layer, x, of_one_text, seen), f"{a}.norm")
        inner = (y @ w[f"{f}.inner.weight"].T + w[f"{f}.inner.bias"]).relu()
        x = norm(y + inner @ w[f"{f}.outer.weight"].T + w[f"{f}.outer.bias"], f"{f}.norm")
    return x


@pytest.mark.parametrize(("seq", "length"), [(12, 0), (4, 3), (4, 8), (3, 12)])
def test_the_model_is_its_formulas(seq, length):
    model = model_of(RELATIVE + "activation=relu table=whole(scaled=true)")
    found = carried(model, ids(), seq, length) if length else model.encode(ids())
    for row in range(2):
        expected = by_hand(model, ids()[row].tolist(), seq, length)
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)


def test_every_token_may_see_as_many():
    memory = remembered(model_of(RELATIVE), 4, ids()[:, :8])._replace(same_length=True)
    allowed = mask_of(EncoderInputs(ids()[:, 8:], memory=memory, causal=True)).allowed
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


def reading(backward: list[int]) -> EncoderInputs:
    inputs = rows(B, S, full=True, pairs=False)
    segments = (torch.arange(S) // 5).expand(B, S)
    return EncoderInputs(inputs.token_ids, segments, backward=torch.tensor(backward))


@pytest.mark.parametrize("extra", KINDS)
def test_a_backward_row_is_the_row_turned_round_and_read_forward(extra):
    model = made(extra)
    rank = torch.rand(B, S, generator=torch.Generator().manual_seed(2)).argsort(1)
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
    turned = PermutationMask(rank.flip(1), rank.flip(1), S - 1 - order.target_positions)
    expected = model.read(whole._replace(permutation=turned, output_positions=asked))
    torch.testing.assert_close(found[[1, 2]], expected[[1, 2]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("extra", KINDS)
def test_backward_a_memory_stands_after_the_text(extra):
    # All that a row may see at once: with what it remembers it is one longer row.
    model = made(extra, layers=1)
    some = reading([1] * B)
    embedded = model.encoder.embeddings(some._replace(permutation=None), torch.float32)
    memory = Memory(embedded[None, :, :5], torch.tensor(5))
    one = some._replace(segment_ids=torch.zeros(B, S, dtype=torch.long))
    later = EncoderInputs(
        one.token_ids[:, 5:], one.segment_ids[:, 5:], memory=memory, backward=one.backward
    )
    torch.testing.assert_close(model.read(later), model.read(one)[:, 5:], atol=1e-5, rtol=1e-4)


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
        assert moved.filled == 6
        after.append(moved)
    torch.testing.assert_close(after[0].states, after[1].states, atol=0, rtol=0)
    assert after[0].states[1:, :, 3:].abs().min() > 0
    batch = corrupt(stage, inputs, vocab(), 2)
    moved = model.read_on(batch.reading._replace(memory=after[0])).memory
    assert (moved.filled, moved.advance) == (9, 6)
    # Nine positions remembered: of six the last three, and the next six.
    torch.testing.assert_close(moved.states[:, :, :3], after[0].states[:, :, 6:], atol=0, rtol=0)
