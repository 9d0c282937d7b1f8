"""Encoders in which no token sees a later one, and what rows remember."""

import pytest
import torch

from bertc.api import points
from bertc.nn import Memory, Model, Reading, build
from bertc.nn.memory import nothing

SIZE = "layers=2 hidden=16 heads=2 ffn=32 vocab=100 seq=12 segments=0 "


def model_of(extra: str = "") -> Model:
    (resolved,) = points(SIZE + extra + " objective=clm" * ("mlm" not in extra))
    model = build(resolved)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def ids() -> torch.Tensor:
    return torch.arange(24).view(2, 12) * 7 % 89


@pytest.mark.parametrize("dropout", [0, 0.1])
@pytest.mark.parametrize("extra", ["", "norm=pre", "share=all E=8"])
def test_later_tokens_change_nothing(extra: str, dropout: float) -> None:
    model = model_of(f"{extra} dropout={dropout}").train()
    before, after = ids(), ids()
    after[:, 7:] += 1
    torch.manual_seed(0)
    one = model.encode(before)
    torch.manual_seed(0)
    other = model.encode(after)
    torch.testing.assert_close(one[:, :7], other[:, :7])
    assert not torch.allclose(one[:, 7:], other[:, 7:])


def test_padding_and_packing_hide_nothing_else() -> None:
    model = model_of()
    whole = model.encode(ids())
    padded = model.encode(ids(), None, torch.arange(12) < torch.tensor([[12], [9]]))
    torch.testing.assert_close(padded[1, :9], whole[1, :9])
    numbers = torch.tensor([[1] * 5 + [2] * 7, [1] * 12])
    packed = model.encode(ids(), None, None, numbers)
    torch.testing.assert_close(packed[0, :5], whole[0, :5])
    torch.testing.assert_close(packed[0, 5:], model.encode(ids()[:1, 5:])[0])


def test_states_asked_for_see_no_later_token() -> None:
    model, asked = model_of(), torch.tensor([[3, 11], [0, 7]])
    states = model.read(Reading(ids(), asked=asked))
    whole = model.encode(ids())
    torch.testing.assert_close(states, whole[torch.arange(2)[:, None], asked])


RELATIVE = "attention=relative norm=post(1e-5, embeddings=false) "


def carried(model: Model, token_ids: torch.Tensor, seq: int, length: int) -> torch.Tensor:
    """States of a text read in pieces of ``seq``, so many positions remembered between them."""
    node = model.resolved.encoder
    memory: Memory | None = nothing(
        len(node.layers), len(token_ids), length, node.hidden, torch.float32, torch.device("cpu")
    )
    states = []
    for piece in token_ids.split(seq, dim=1):
        found, memory = model.read_on(Reading(piece, memory=memory))
        states.append(found)
    return torch.cat(states, dim=1)


@pytest.mark.parametrize(
    "extra",
    ["", "attention=relative(untie=true) norm=pre", "share=all", "share=attention E=8"],
)
@pytest.mark.parametrize(("seq", "length"), [(3, 12), (5, 20), (12, 12), (1, 11)])
def test_with_the_past_remembered_pieces_are_one_long_pass(
    extra: str, seq: int, length: int
) -> None:
    model = model_of(RELATIVE * ("relative" not in extra) + extra)
    whole = model.encode(ids())
    pieces = carried(model, ids(), seq, length)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=1e-5)


def test_a_short_memory_forgets() -> None:
    model = model_of(RELATIVE)
    assert not torch.allclose(carried(model, ids(), 3, 2), model.encode(ids()), atol=1e-3)


def test_no_gradient_goes_into_a_memory() -> None:
    model = model_of(RELATIVE)
    memory = nothing(2, 2, 8, 16, torch.float32, torch.device("cpu"))
    _, memory = model.read_on(Reading(ids(), memory=memory))
    assert memory is not None
    assert not memory.states.requires_grad
    assert memory.filled == 8


def test_states_asked_for_have_the_same_memory() -> None:
    model = model_of(RELATIVE)
    memory = nothing(2, 2, 9, 16, torch.float32, torch.device("cpu"))
    _, memory = model.read_on(Reading(ids()[:, :5], memory=memory))
    rest, asked = Reading(ids()[:, 5:], memory=memory), torch.tensor([[3, 6], [0, 4]])
    states, whole = model.read(rest._replace(asked=asked)), model.read(rest)
    torch.testing.assert_close(states, whole[torch.arange(2)[:, None], asked], atol=1e-5, rtol=1e-5)


def test_both_sides_and_a_memory_go_together() -> None:
    model = model_of("attention=relative objective=mlm format=stream memory=5")
    assert not model.resolved.encoder.causal
    two = carried(model, ids(), 6, 6)
    torch.testing.assert_close(two[:, :6], model.encode(ids()[:, :6]), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(two[:, 6:], model.encode(ids()[:, 6:]), atol=1e-3)
