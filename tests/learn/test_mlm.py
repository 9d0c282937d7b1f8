"""Masking of tokens, and of translations: how many, which, and what stands in their place."""

import math

import pytest
import torch
from scipy import stats

from bertc.ir.terms.masked import Mntp
from bertc.learn.objectives import Inputs, MicroBatch, corrupt, tensors_of
from bertc.model import build
from tests.kinds import UNIT_KINDS
from tests.learn import material
from tests.learn.material import MASK, ORDINARY, PAD, VOCAB, chosen, corrupted, program, rows, vocab

UNITS = ("token", "adaptive", "word", "ngram(3)", "span(0.2, 10)", "span(max=6, lengths=fixed)")


def test_every_unit_of_masking_is_tried():
    assert {unit.partition("(")[0] for unit in UNITS} == UNIT_KINDS


def mlm(**settings: object) -> str:
    return f"mlm({', '.join(f'{name}={value}' for name, value in settings.items())})"


@pytest.mark.parametrize("p", ["15%", "12.5%", "50%"])
@pytest.mark.parametrize("seq", [128, 512])
def test_the_count_of_every_length_is_that_of_the_official_code(p, seq):
    rate, lengths = float(p[:-1]) / 100, range(4, seq + 1)
    inputs, most = rows(seq - 3, seq, long=tuple(lengths), pairs=False), math.ceil(rate * seq)
    nearest, up, capped = (
        chosen(corrupted(mlm(p=p, **how), inputs)).sum(1).tolist()
        for how in ({}, {"count": "up"}, {"max_predictions": 5})
    )
    # Of 4 tokens two are special, so that 2 can be predicted at most.
    assert nearest == [min(n - 2, most, max(1, round(n * rate))) for n in lengths]
    assert up == [min(most, math.ceil((n - 2) * rate)) for n in lengths]
    assert capped == [min(n - 2, 5, max(1, round(n * rate))) for n in lengths]


def test_the_stochastic_count_is_right_on_average():
    inputs = rows(8000, 16, full=True)
    counts = chosen(corrupted(mlm(count="stochastic", mask_specials="true"), inputs)).sum(1)
    assert set(counts.tolist()) == {2, 3}  # 0.15 x 16 = 2.4
    assert abs(counts.double().mean().item() - 2.4) < 4 * math.sqrt(0.24 / 8000)


@pytest.mark.parametrize("specials", ["false", "true"])
@pytest.mark.parametrize("unit", UNITS)
def test_specials_can_be_candidates_and_padding_never(unit, specials):
    inputs = rows(300, 48)
    batch = corrupted(mlm(p="40%", unit=unit, mask_specials=specials), inputs)
    marks = chosen(batch)
    assert bool(marks[:, 0].any()) == (specials == "true")
    assert (inputs.token_ids[marks] > (PAD if specials == "true" else ORDINARY - 1)).all()
    assert torch.equal(batch.reading.token_ids[~marks], inputs.token_ids[~marks])
    assert torch.equal(batch.originals, inputs.token_ids)


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


def test_of_a_share_of_rows_the_last_token_alone_is_predicted():
    inputs = rows(4000, 24, full=True)
    before, after = (
        chosen(corrupted(mlm(p="40%", **more), inputs)) for more in ({}, {"last": "25%"})
    )
    places = torch.arange(24)
    last = torch.where(inputs.token_ids >= ORDINARY, places, -1).amax(1, keepdim=True) == places
    alone = (after == last).all(1)
    assert torch.equal(before[~alone], after[~alone])
    assert alone.double().mean().item() == pytest.approx(0.25, abs=0.03)


def test_every_ordinary_position_is_chosen_equally_often():
    marks = chosen(corrupted(mlm(), rows(6000, 20, full=True))).sum(0)
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
    one_each = parts[1] / VOCAB
    shares = parts[0] + one_each, parts[1] - 2 * one_each, parts[2] + one_each
    expected = [share / 100 for share in shares]
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
    stages = [program("mlm", 32, f"format={how}").stages[0] for how in ("full-sentences", "blocks")]
    mask, none = (corrupt(stage, inputs, vocab(), 0).reading.attention_mask for stage in stages)
    assert torch.equal(mask, inputs.token_ids != PAD)
    assert none is None


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


SEQ = 40
DATA = 'data=files("a.txt", language="de")+pairs(en="a.en", fr="a.fr") language_embeddings=true'
ONE = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
"""Which rows are translations."""


def mixed(count: int = 8) -> Inputs:
    """Rows of [CLS] A [SEP], and of [CLS] A [SEP] [CLS] B [SEP]."""
    inputs = rows(count, SEQ, pairs=False)
    inputs = inputs._replace(lengths=inputs.lengths.clamp(min=12))
    ids, lane = inputs.token_ids.clamp(min=ORDINARY), torch.arange(SEQ)
    ids[:, 0] = material.CLS
    ids[lane == inputs.lengths[:, None] - 1] = material.SEP
    ids[lane >= inputs.lengths[:, None]] = 0
    paired = ONE.repeat(-(-count // 8))[:count].bool()
    middle = inputs.lengths // 2
    ids[paired, middle[paired]] = material.CLS
    ids[paired, middle[paired] - 1] = material.SEP
    inside = (lane >= middle[:, None]) & (lane < inputs.lengths[:, None])
    languages = torch.where(paired[:, None], torch.tensor([1, 2]), torch.tensor([0, 0]))
    labels = torch.where(paired, 2, 0)[:, None]
    return inputs._replace(
        token_ids=ids, segment_ids=(inside & paired[:, None]).long(), languages=languages,
        pair_labels=labels,
    )  # fmt: skip


def made(objective: str, inputs: Inputs) -> MicroBatch:
    return corrupt(program(objective, SEQ, DATA).stages[0], inputs, vocab(), 3)


def test_a_translation_has_its_own_positions_and_language():
    inputs = mixed()
    reading = made("mlm+tlm", inputs).reading
    for row, paired in enumerate(ONE.tolist()):
        length = int(inputs.lengths[row])
        middle = length // 2 if paired else length
        expected = [*range(middle), *range(length - middle)]
        assert reading.position_ids[row, :length].tolist() == expected
        languages = [1 if paired else 0] * middle + [2] * (length - middle)
        assert reading.language_ids[row, :length].tolist() == languages


def test_attention_crosses_the_pair_and_positions_are_those_of_both_alone():
    resolved = program("mlm+tlm", SEQ, DATA)
    model = build(resolved).eval()
    inputs = mixed()
    batch = corrupt(resolved.stages[0], inputs, vocab(), 3)
    row = 1
    length, middle = int(inputs.lengths[row]), int(inputs.lengths[row]) // 2
    reading = batch.reading._replace(output_positions=None)
    second = model.encoder.embeddings(reading, torch.float32)[row, middle:length]
    alone = model.encode  # the second text by itself, in its own language
    ids = reading.token_ids[row, middle:length][None]
    tongue = torch.full_like(ids, 2)
    by_itself = model.encoder.embeddings(
        reading._replace(
            token_ids=ids, segment_ids=torch.ones_like(ids), attention_mask=None,
            language_ids=tongue, position_ids=None,
        ),
        torch.float32,
    )  # fmt: skip
    torch.testing.assert_close(second, by_itself[0])
    hidden = model.read(reading)[row, middle:length]
    assert not torch.allclose(hidden, alone(ids, torch.ones_like(ids), language_ids=tongue)[0])


def test_without_tlm_positions_are_left_alone():
    batch = made("mlm", mixed())
    assert batch.reading.position_ids is None
    assert batch.terms["mlm"].translated is None


@pytest.mark.parametrize("unit", ["token", "word", "ngram(3)", "span(0.2, 10)"])
def test_each_row_is_masked_as_its_own_objective_says(unit):
    inputs = mixed(64)
    batch = made(f"mlm(p=40%, unit={unit}) + tlm(p=15%, replace=0/0/100)", inputs)
    alone = made(f"mlm(p=40%, unit={unit})", inputs)
    apart = made("tlm(p=15%, replace=0/0/100) + mlm", inputs)
    paired = inputs.languages[:, 0] != inputs.languages[:, 1]
    marks = chosen(batch)
    assert torch.equal(marks[~paired], chosen(alone)[~paired])
    assert torch.equal(marks[paired], chosen(apart)[paired])
    read = batch.reading.token_ids
    assert torch.equal(read[paired], inputs.token_ids[paired])
    assert (read[~paired] == MASK).any()
    terms = program("mlm+tlm", SEQ, DATA).stages[0].objective
    both = [tensors_of(t.objective).count(batch.terms[t.name]) for t in terms]
    assert both == [marks[~paired].sum(), marks[paired].sum()]
    # Both texts of a pair are masked.
    segments = inputs.segment_ids[paired][marks[paired]]
    assert 0 < segments.sum() < len(segments)


def test_the_losses_of_both_are_those_of_their_rows():
    resolved = program("mlm+tlm", SEQ, DATA)
    model = build(resolved).eval()
    inputs, stage = mixed(), resolved.stages[0]
    batch = corrupt(stage, inputs, vocab(), 3)
    found = material.losses(model, batch, model.read(batch.reading))
    for kind, which in (("mlm", ONE == 0), ("tlm", ONE == 1)):
        part = corrupt(stage, Inputs(*(tensor[which] for tensor in inputs)), vocab(), 3)
        one = material.losses(model, part, model.read(part.reading))
        torch.testing.assert_close(found[kind].sum, one[kind].sum)
        assert found[kind].count == one[kind].count > 0


def test_boundaries_are_asked_about_where_there_are_spans():
    inputs = mixed(64)
    paired = inputs.languages[:, 0] != inputs.languages[:, 1]
    batch = made("mlm(unit=span)+sbo+tlm", inputs)
    assert batch.terms["sbo"].weights[~paired].any()
    assert not batch.terms["sbo"].weights[paired].any()
    assert made("mlm(unit=span)+sbo+tlm(unit=span)", inputs).terms["sbo"].weights[paired].any()


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_draw_is_without_replacement_and_in_proportion_to_the_weights(alpha):
    """Two of three tokens of weights 4, 2, 1: the pairs have Plackett and Luce's chances."""
    count = 6000
    ids = torch.tensor([material.CLS, 20, 21, 22, material.SEP, 0, 0, 0]).repeat(count, 1)
    inputs = rows(count, 8)._replace(
        token_ids=ids, lengths=torch.full((count,), 5), segment_ids=torch.zeros_like(ids)
    )
    frequency = torch.ones(1000, dtype=torch.double)
    frequency[20:23] = torch.tensor([1 / 4, 1 / 2, 1.0]).double() ** (1 / alpha)
    stage = program(f"mlm(p=40%, rare={alpha})", 8, "format=single-segment").stages[0]
    marks = chosen(corrupt(stage, inputs, vocab()._replace(frequency=frequency), 5))[:, 1:4]
    assert (marks.sum(1) == 2).all()
    left_out = (~marks).sum(0).tolist()

    def last(i: int) -> float:
        weights, total = [4.0, 2.0, 1.0], 7.0
        one, two = (w for j, w in enumerate(weights) if j != i)
        return one / total * two / (total - one) + two / total * one / (total - two)

    assert stats.chisquare(left_out, [count * last(i) for i in range(3)]).pvalue > 1e-3
