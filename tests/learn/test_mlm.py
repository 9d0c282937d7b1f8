"""Masking of single tokens: how many, which, and what is written in their place."""

import math

import pytest
import torch
from scipy import stats

from bertc.ir.terms.masked import Mntp
from bertc.learn.objectives import corrupt, tensors_of
from tests.kinds import UNIT_KINDS
from tests.learn.material import MASK, ORDINARY, PAD, VOCAB, chosen, corrupted, program, rows, vocab

UNITS = ("token", "adaptive", "word", "ngram(3)", "span(0.2, 10)")


def test_every_unit_of_masking_is_tried():
    assert {unit.partition("(")[0] for unit in UNITS} == UNIT_KINDS


def mlm(**settings: object) -> str:
    return f"mlm({', '.join(f'{name}={value}' for name, value in settings.items())})"


def lengths_in_turn(seq: int) -> object:
    inputs = rows(seq - 3, seq)
    lengths = torch.arange(4, seq + 1)
    ids = torch.full((seq - 3, seq), 77)
    ids[:, 0] = 2
    lane = torch.arange(seq)
    ids[lane == lengths[:, None] - 1] = 3
    ids[lane >= lengths[:, None]] = PAD
    return inputs._replace(token_ids=ids, lengths=lengths)


@pytest.mark.parametrize("p", ["15%", "12.5%", "50%"])
@pytest.mark.parametrize("seq", [128, 512])
def test_the_count_of_every_length_is_that_of_the_official_code(p, seq):
    rate = float(p[:-1]) / 100
    inputs = lengths_in_turn(seq)
    most = math.ceil(rate * seq)
    lengths = range(4, seq + 1)
    nearest = chosen(corrupted(mlm(p=p), inputs)).sum(1).tolist()
    # Of 4 tokens two are special, so that 2 can be predicted at most.
    assert nearest == [min(n - 2, most, max(1, round(n * rate))) for n in lengths]
    up = chosen(corrupted(mlm(p=p, count="up"), inputs)).sum(1).tolist()
    assert up == [min(most, math.ceil((n - 2) * rate)) for n in lengths]
    capped = chosen(corrupted(mlm(p=p, max_predictions=5), inputs)).sum(1).tolist()
    assert capped == [min(n - 2, 5, max(1, round(n * rate))) for n in lengths]


def test_the_stochastic_count_is_right_on_average():
    inputs = rows(8000, 16, full=True)
    counts = chosen(corrupted(mlm(count="stochastic", mask_specials="true"), inputs)).sum(1)
    assert set(counts.tolist()) == {2, 3}  # 0.15 x 16 = 2.4
    assert abs(counts.double().mean().item() - 2.4) < 4 * math.sqrt(0.24 / 8000)


@pytest.mark.parametrize("unit", UNITS)
def test_specials_and_padding_are_left_alone(unit):
    inputs = rows(300, 48)
    batch = corrupted(mlm(p="40%", unit=unit), inputs)
    marks = chosen(batch)
    assert (inputs.token_ids[marks] >= ORDINARY).all()
    assert torch.equal(batch.reading.token_ids[~marks], inputs.token_ids[~marks])
    assert torch.equal(batch.originals, inputs.token_ids)


@pytest.mark.parametrize("unit", UNITS)
def test_specials_can_be_candidates_and_padding_never(unit):
    inputs = rows(300, 48)
    marks = chosen(corrupted(mlm(p="40%", unit=unit, mask_specials="true"), inputs))
    assert marks[:, 0].any()
    assert (inputs.token_ids[marks] != PAD).all()


@pytest.mark.parametrize("unit", UNITS)
def test_predictions_stand_in_the_order_of_the_text(unit):
    inputs = rows(200, 64)
    asked = corrupted(mlm(unit=unit), inputs).terms["mlm"]
    shape = 200, 19 if unit == "adaptive" else 10
    assert asked.positions.shape == asked.targets.shape == asked.weights.shape == shape
    used = asked.weights.bool()
    assert set(asked.weights.unique().tolist()) <= {0.0, 1.0}
    assert not (used[:, 1:] & ~used[:, :-1]).any()  # unused slots are the last ones
    assert (asked.positions.diff(dim=1)[used[:, 1:]] > 0).all()
    assert (asked.positions[~used] == 0).all()
    assert torch.equal(asked.targets[used], inputs.token_ids.gather(1, asked.positions)[used])


def test_every_ordinary_position_is_chosen_equally_often():
    inputs = rows(6000, 20, full=True)
    marks = chosen(corrupted(mlm(), inputs)).sum(0)
    ordinary = torch.ones(20, dtype=torch.bool)
    ordinary[[0, 10, 19]] = False
    assert (marks[~ordinary] == 0).all()
    assert stats.chisquare(marks[ordinary].numpy()).pvalue > 1e-4


@pytest.mark.parametrize("parts", [(80, 10, 10), (100, 0, 0), (0, 0, 100), (85, 0, 15)])
def test_replacements_follow_their_percentages(parts):
    inputs = rows(2000, 64, full=True)
    batch = corrupted(mlm(replace="/".join(map(str, parts))), inputs)
    marks = chosen(batch)
    old, new = inputs.token_ids[marks], batch.reading.token_ids[marks]
    masked, kept = int((new == MASK).sum()), int((new == old).sum())
    counts = [masked, len(new) - masked - kept, kept]
    # A token drawn at random is [MASK] or the old one once in 1000 each.
    expected = [
        (parts[0] + parts[1] / VOCAB) / 100,
        parts[1] / 100 * (1 - 2 / VOCAB),
        (parts[2] + parts[1] / VOCAB) / 100,
    ]
    for count, share in zip(counts, expected, strict=True):
        spread = math.sqrt(len(new) * share * (1 - share))
        assert abs(count - len(new) * share) <= 4.5 * spread


@pytest.mark.parametrize(
    ("source", "first"), [("vocabulary", 0), ("ordinary", ORDINARY), ("corpus", ORDINARY)]
)
def test_random_tokens_come_from_their_source(source, first):
    inputs = rows(3000, 64, full=True)
    batch = corrupted(mlm(replace="0/100/0", random_from=source), inputs)
    drawn = batch.reading.token_ids[chosen(batch)]
    counts = torch.bincount(drawn, minlength=VOCAB)[first:]
    assert counts.sum() == len(drawn)
    share = torch.ones(len(counts)).double() / len(counts)
    if source == "corpus":
        share = vocab().unigram_cdf.diff(prepend=torch.zeros(1).double())[first:]
    assert stats.chisquare(counts.numpy(), (share * len(drawn)).numpy()).pvalue > 1e-4


def test_without_masking_nothing_changes():
    inputs = rows(8, 32)
    batch = corrupted("sop", inputs)
    assert "mlm" not in batch.terms
    assert torch.equal(batch.reading.token_ids, inputs.token_ids)
    assert torch.equal(batch.terms["sop"].labels, inputs.pair_labels)
    assert batch.terms["sop"].weights.all()
    assert not batch.terms["sop"].positions.any()


def test_padding_is_not_attended_to_where_there_is_any():
    inputs = rows(8, 32)
    padded = program("mlm", 32, "format=full-sentences").stages[0]
    full = program("mlm", 32, "format=blocks").stages[0]
    mask = corrupt(padded, inputs, vocab(), 0).reading.attention_mask
    assert mask is not None
    assert torch.equal(mask, inputs.token_ids != PAD)
    assert corrupt(full, inputs, vocab(), 0).reading.attention_mask is None


def test_a_token_drawn_twice_stays_as_it_is_where_both_draws_say_so():
    batch = corrupted("mlm(30%, replace=60/0/40, distinct=false)", rows(3000, 32, full=True))
    places, used = batch.terms["mlm"].positions, batch.terms["mlm"].weights.bool()
    draws = torch.zeros_like(batch.originals).scatter_add_(1, places, used.long())
    masked = batch.reading.token_ids == MASK
    for times in (1, 2):
        share = masked[draws == times].float().mean().item()
        assert share == pytest.approx(1 - 0.4**times, abs=0.02)


def test_mntp_predicts_a_masked_token_from_the_state_before_it():
    inputs, half = rows(60, 32, full=True, pairs=False), 16
    inputs = inputs._replace(starts=torch.tensor([[0, half]]).expand(60, 2))
    everywhere = "mntp(mask_specials=true)"  # a first token is masked too
    stage = program(everywhere, 32, "format=doc-sentences pack=true").stages[0]
    packed = corrupt(stage, inputs, vocab(), 0)
    for batch, firsts in ((corrupted(everywhere, inputs), [0]), (packed, [0, half])):
        targets = batch.terms["mntp"]
        (states_bk,) = tensors_of(Mntp()).positions(targets, batch)
        used_bk, at_bk = targets.weights > 0, targets.positions
        assert torch.equal(states_bk[used_bk], at_bk[used_bk] - 1)
        assert torch.equal(targets.targets, batch.originals.gather(1, at_bk))
        assert set(at_bk[~used_bk].tolist()) == set(firsts)
        assert not set(at_bk[used_bk].tolist()) & set(firsts)
