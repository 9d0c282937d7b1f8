"""Which tokens are predicted and in which order, against a sampler that takes draws in turn."""

from collections import Counter

import pytest
import torch

from bertc.ir.learning.objective import Plm
from bertc.learn.objectives import corrupt
from bertc.learn.objectives.draws import another, below, bits, unit
from bertc.learn.objectives.text.plm import chained, find_spans, shuffle_ranks
from tests.learn.material import CLS, SEP, chosen, corrupted, program, rows, vocab
from tests.learn.samples import words_of


def order_of(batch):
    return batch.reading.permutation


def seeing(order):
    """Which token (b, s, s) sees which."""
    return order.rank[:, None, :] < order.visible_below[:, :, None]


def spans(objective, inputs):
    """Marks on the spans, and the random numbers they are made of."""
    seq = inputs.token_ids.shape[1]
    drawn = bits(3, inputs.copies, inputs.example_ids, seq)
    real = torch.arange(seq) < inputs.lengths[:, None]
    return find_spans(objective, inputs, real, vocab(), drawn), drawn


def one_by_one(objective, ids, length, n_at, left_at):
    """As the release walks through a text: context, span, context, and the next."""
    words = words_of(ids[:length], [i < 700 for i in range(1000)], [i < 10 for i in range(1000)])
    begins = sorted({b for b, _ in words} | {i for i in range(length) if ids[i] < 10})
    predicted: set[int] = set()
    at = 0
    while at < length:
        n, left = n_at[at], left_at[at]
        later = [b for b in begins if b >= at + left]
        if not later:
            break
        first = later[0]
        ends = [first + n] if objective.unit == "pieces" else [*later[n : n + 1], length][:1]
        if ends[0] >= length:
            break
        predicted |= set(range(first, ends[0]))
        at = ends[0] + objective.k * n - left
    return predicted


@pytest.mark.parametrize("unit_of", ["pieces", "words"])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_spans_are_those_of_the_walk(unit_of, k):
    objective = Plm.model_validate({"k": k, "unit": unit_of})
    inputs = rows(60, 96)
    marks, drawn = spans(objective, inputs)
    total = sum(1 / n for n in range(1, 6))
    reached = torch.tensor([sum(1 / n for n in range(1, m + 1)) for m in range(1, 5)])
    n_at = 1 + (unit(drawn)[..., None] * total >= reached).sum(2)
    left_at = below(another(drawn), k * n_at)
    for row in range(60):
        columns = inputs.token_ids, inputs.lengths, n_at, left_at
        expected = one_by_one(objective, *(column[row].tolist() for column in columns))
        assert set(marks[row].nonzero()[:, 0].tolist()) == expected


def test_lengths_and_share_are_those_of_the_closed_form():
    # All tokens begin words, so a span of n has k n others around it: 1 of k + 1 is predicted.
    inputs = rows(400, 512, full=True, pairs=False)
    inputs = inputs._replace(token_ids=inputs.token_ids % 600 + 10)
    marks, _ = spans(Plm(unit="pieces"), inputs)
    assert marks.float().mean().item() == pytest.approx(1 / 7, rel=0.03)
    lengths = Counter[int]()
    for row in marks.tolist():
        lengths.update(map(len, "".join("x" if mark else " " for mark in row).split()))
    total = sum(1 / n for n in range(1, 6))
    # Of two neighbours nothing may be between: 1 in 36 n^2 makes one longer run.
    for n in range(1, 6):
        assert lengths[n] / lengths.total() == pytest.approx(1 / n / total, rel=0.12)


def test_a_row_tells_as_many_tokens_as_it_is_asked_for():
    inputs = rows(200, 512, full=True)
    batch = corrupted("plm(unit=pieces, block=256)", inputs)
    assert batch.terms["plm"].positions.shape == (200, 85)
    # [CLS] and [SEP] are drawn like others and dropped (3 of 512).
    assert 84 < batch.terms["plm"].weights.sum(1).mean() < 85
    assert torch.equal(
        batch.terms["plm"].targets, inputs.token_ids.gather(1, batch.terms["plm"].positions)
    )
    assert torch.equal(batch.reading.token_ids, inputs.token_ids)
    short = corrupted("plm", rows(50, 96))
    wanted = (rows(50, 96).lengths * 16 // 96).clamp(min=1)
    assert (short.terms["plm"].weights.sum(1) <= wanted).all()


def test_special_tokens_are_never_predicted_and_come_in_the_order():
    inputs = rows(100, 48)
    batch = corrupted("plm(k=2)", inputs)
    order, predicted = order_of(batch), chosen(batch)
    special = (inputs.token_ids == CLS) | (inputs.token_ids == SEP)
    real = torch.arange(48) < inputs.lengths[:, None]
    assert not (predicted & special).any()
    first = order.rank == -1
    assert torch.equal(first, real & ~predicted & ~special)
    # Who is seen by all sees nobody but its like.
    assert (order.visible_below[first] == 0).all()
    assert (order.visible_below[predicted] == order.rank[predicted]).all()
    assert (order.visible_below[special & real] == order.rank[special & real] + 1).all()
    assert not seeing(order).transpose(1, 2)[~real].any()


def test_rows_are_permutations_of_their_own_and_blocks_shuffled_alike():
    places = shuffle_ranks(bits(1, torch.zeros(300, dtype=torch.long), torch.arange(300), 8), 8)
    assert torch.equal(places.sort(1).values, torch.arange(8).expand(300, 8))
    share = torch.stack([(places == i).float().mean(0) for i in range(8)])
    assert (share - 1 / 8).abs().max() < 0.06
    places = shuffle_ranks(bits(1, torch.zeros(4, dtype=torch.long), torch.arange(4), 16), 48)
    assert torch.equal(places[:, :16] + 16, places[:, 16:32])
    assert torch.equal(places[:, :16] + 32, places[:, 32:])
    batch = corrupted("plm(block=16, k=2)", rows(50, 48, full=True))
    order, predicted = order_of(batch), chosen(batch)
    lane, sees = torch.arange(48) // 16, seeing(order)
    earlier = (lane[:, None] > lane) & predicted[:, None, :] & predicted[:, :, None]
    assert sees[earlier].all()


def test_chains_are_followed_to_their_end():
    marks = chained(torch.tensor([[2, 3, 3, 6, 5, 7, 8, 8], [1, 2, 3, 4, 5, 6, 7, 8]]), 8)
    assert marks[0].nonzero()[:, 0].tolist() == [0, 2, 3, 6]
    assert marks[1].all()


REUSED = "format=stream-pair(reuse=60, both_ways=true) attention=relative segments=0"


def reused(inputs, objective="plm"):
    """Rows of 120 tokens in two parts of 60."""
    return corrupt(program(objective, 120, REUSED).stages[0], inputs, vocab(), 3)


def text_of_two(count):
    """Rows that begin with text; then a segment, [SEP], another, [SEP] and [CLS]."""
    inputs = rows(count, 120, full=True, pairs=False)
    ids = inputs.token_ids.clone()
    ids[:, 0], ids[:, 85], ids[:, -2], ids[:, -1] = 500, SEP, SEP, CLS
    return inputs._replace(token_ids=ids)


def test_each_part_has_its_share_and_sees_nothing_of_the_next():
    released = program("plm(unit=pieces, block=256)", 512, REUSED.replace("60", "256")).stages[0]
    plm = corrupt(released, rows(100, 512, full=True, pairs=False), vocab(), 0).terms["plm"]
    in_first = ((plm.positions < 256) * plm.weights).sum(1)
    # [CLS], which stands first here, and [SEP] are drawn and dropped.
    assert {42, 43} >= set(in_first.tolist())
    assert {41, 42} >= set((plm.weights.sum(1) - in_first).tolist())
    inputs = text_of_two(80)
    batch = reused(inputs, "plm(k=3)")
    order, predicted = order_of(batch), chosen(batch)
    special = inputs.token_ids < 10
    assert not (predicted & special).any()
    sees = seeing(order)
    assert not sees[:, :60, 60:].any()
    assert sees[:, 60:, :60].all()
    for part in (slice(0, 60), slice(60, 120)):
        first = ~(predicted | special)[:, part]
        own = sees[:, part, part]
        assert own.transpose(1, 2)[first].all()
        seen_by_first = own & first[:, :, None]
        assert not (seen_by_first & ~first[:, None, :]).any()
        # The others stand one behind another: of two one sees the other.
        rest = ~first[:, :, None] & ~first[:, None, :] & ~torch.eye(60, dtype=torch.bool)
        assert (own ^ own.transpose(1, 2))[rest].all()


def test_parts_are_shuffled_each_on_its_own():
    order = order_of(reused(text_of_two(40), "plm(k=1)"))
    places = [order.rank[:, :60].argsort(1), order.rank[:, 60:].argsort(1)]
    assert (places[0] != places[1]).any(1).all()


def test_text_that_runs_backward_is_told_by_the_words_it_has_forward():
    def turned(part_bs):
        return part_bs.unflatten(1, (2, 60)).flip(2).flatten(1)

    inputs = text_of_two(60)
    backward = inputs._replace(
        token_ids=turned(inputs.token_ids), backward=torch.ones_like(inputs.backward)
    )
    for unit_of in ("pieces", "words"):
        forward, other = (reused(i, f"plm(unit={unit_of})") for i in (inputs, backward))
        assert torch.equal(turned(chosen(other)), chosen(forward))
        assert other.reading.backward.all()
