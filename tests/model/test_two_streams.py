"""Two streams against their definition: who sees whom, one state after the other.
Axes: b rows, s tokens, u of them unseen, h hidden.
"""

import functools

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import pad

from bertc.api import resolve
from bertc.model import EncoderInputs, PermutationMask, gather_positions
from tests.model.material import drawn, rows_of

B, S = 2, 6
XLNET = "attention=relative(untie=true, segments=true) segments=0 norm=post(embeddings=false) "
BASE = "layers=3 hidden=16 heads=2 vocab=50 seq=16 objective=plm head=linear "
KINDS = [
    XLNET, XLNET + "E=8 share=all", "attention=relative norm=pre", "",
    "norm=pre share=attention E=24 positions=sinusoidal",
]  # fmt: skip
# Six tokens in the order 3, 2, 4, 0; 1 and 5 come first of all and are not predicted.
RANK = torch.tensor([[3, -1, 1, 0, 2, -1]] * B)
BEFORE = torch.tensor([[3, 0, 1, 0, 2, 0]] * B)
UNSEEN = torch.tensor([[0, 2, 3, 4]] * B)
ORDER = PermutationMask(RANK, BEFORE, UNSEEN)
SEES = {0: {1, 2, 3, 4, 5}, 1: {1, 5}, 2: {1, 3, 5}, 3: {1, 5}, 4: {1, 2, 3, 5}, 5: {1, 5}}
"""Whom each token sees, itself left out where it is predicted."""


def made(extra):
    return drawn(resolve(BASE + extra))


IDS = rows_of(B, S)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 1, 2]])


def segments(model):
    table = model.resolved.encoder.segments
    return SEGMENTS.clamp(max=table - 1) if table else SEGMENTS


def states(model, token_ids, order=ORDER, **more):
    return model.read(EncoderInputs(token_ids, segments(model), permutation=order, **more))


def touched(model, at, order=ORDER):
    """Which first and second states a change of token ``at`` reaches."""
    changed = IDS.clone()
    changed[:, at] = (changed[:, at] - 5 + 7) % 45 + 5
    moved = (states(model, IDS, order) - states(model, changed, order)).abs().amax((0, 2)) > 1e-6
    found = set(moved.nonzero()[:, 0].tolist())
    unseen = order.target_positions[0].tolist()
    return {i for i in found if i < S}, {unseen[i - S] for i in found if i >= S}


@pytest.mark.parametrize("extra", KINDS)
def test_six_tokens_see_what_stands_before_them_in_the_order(extra):
    model = made(extra)
    for at in range(S):
        first, second = touched(model, at)
        assert first == {i for i, seen in SEES.items() if at in seen} | {at}
        # No prediction of a token depends on itself: the token itself changes nothing there.
        assert second == {i for i in (0, 2, 3, 4) if at in SEES[i] - {i}}


@pytest.mark.parametrize("extra", KINDS)
def test_without_an_order_every_token_sees_every_other(extra):
    model = made(extra)
    everyone = PermutationMask(torch.full((B, S), -1), torch.zeros(B, S, dtype=torch.long), UNSEEN)
    both = states(model, IDS, everyone)
    assert both.shape == (B, S + 4, 16)
    torch.testing.assert_close(both[:, :S], states(model, IDS, None), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("extra", KINDS)
def test_states_asked_for_are_those_of_the_whole_row(extra):
    model = made(extra)
    asked = torch.tensor([[S, S + 1, S + 2, S + 3, 5], [S + 3, 0, 0, 1, S + 1]])
    found = states(model, IDS, output_positions=asked)
    expected = gather_positions(states(model, IDS), asked)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("extra", KINDS)
def test_who_sees_nothing_gives_numbers_and_not_its_token(extra, rate):
    model = made(f"{extra} dropout={rate}")
    in_order = torch.arange(S).expand(B, S)
    nothing = PermutationMask(in_order, in_order, UNSEEN[:, :1])
    assert 0 not in touched(model, 0, nothing)[1]
    found = states(model.train(), IDS, nothing)
    assert found.isfinite().all()
    found.square().sum().backward()
    for name, parameter in model.encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert model.encoder.embeddings.unseen.grad.abs().sum() > 0


def test_packed_and_padded_rows_keep_to_their_own():
    model = made(XLNET)
    whole = states(model, IDS)
    order = PermutationMask(pad(RANK, (0, 3), value=-1), pad(BEFORE, (0, 3), value=9), UNSEEN)
    padded = pad(IDS, (0, 3)), pad(SEGMENTS, (0, 3)), torch.arange(S + 3).expand(B, -1) < S
    found = model.read(EncoderInputs(*padded, permutation=order))
    kept = torch.cat([found[:, :S], found[:, S + 3 :]], dim=1)
    torch.testing.assert_close(kept, whole, atol=1e-5, rtol=1e-4)
    ids_1s, segments_1s, rank_1s, before_1s = (
        rows.reshape(1, -1) for rows in (IDS, SEGMENTS, RANK, BEFORE)
    )
    order = PermutationMask(rank_1s, before_1s, torch.cat([UNSEEN[:1], UNSEEN[1:] + S], 1))
    numbers = torch.tensor([[1] * S + [2] * S])
    both = EncoderInputs(ids_1s, segments_1s, sequence_ids=numbers, permutation=order)
    found = model.read(both)[0]
    rows = [torch.cat([found[:S], found[2 * S :][:4]]), torch.cat([found[S : 2 * S], found[-4:]])]
    torch.testing.assert_close(torch.stack(rows), whole, atol=1e-5, rtol=1e-4)


def test_once_learned_it_needs_no_order():
    model = made(XLNET)
    mask = torch.arange(S + 2).expand(B, -1) >= 2
    found = model.encode(pad(IDS, (2, 0)), pad(SEGMENTS, (2, 0)), mask)[:, 2:]
    torch.testing.assert_close(found, model.encode(IDS, SEGMENTS), atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
def test_one_graph_serves_all_layers_and_another_the_last(monkeypatch):
    torch.compiler.reset()
    model, asked = made(XLNET), torch.arange(S, S + 4).expand(B, 4)
    expected = states(model, IDS, output_positions=asked)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    model.encoder.compile_regions()
    counters.clear()
    for order in (ORDER, ORDER._replace(target_positions=UNSEEN.flip(1))):
        found = states(model, IDS, order, output_positions=asked)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        expected = expected.flip(1)
    assert counters["stats"]["unique_graphs"] == 3
    assert not counters["graph_break"]
