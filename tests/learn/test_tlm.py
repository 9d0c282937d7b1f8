"""Translation language modelling: who counts for what, where positions stand, what is masked."""

import pytest
import torch
from scipy import stats

from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Inputs, MicroBatch, corrupt, tensors_of
from bertc.model import build
from tests.learn.material import CLS, MASK, ORDINARY, SEP, chosen, losses, program, rows, vocab

SEQ = 40
DATA = 'data=files("a.txt", language="de")+pairs(en="a.en", fr="a.fr") language_embeddings=true'
ONE = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
"""Which rows are translations."""


def mixed(count: int = 8) -> Inputs:
    """Rows of [CLS] A [SEP], and of [CLS] A [SEP] [CLS] B [SEP]."""
    inputs = rows(count, SEQ, pairs=False)
    inputs = inputs._replace(lengths=inputs.lengths.clamp(min=12))
    ids, lane = inputs.token_ids.clamp(min=ORDINARY), torch.arange(SEQ)
    ids[:, 0] = CLS
    ids[lane == inputs.lengths[:, None] - 1] = SEP
    ids[lane >= inputs.lengths[:, None]] = 0
    paired = ONE.repeat(-(-count // 8))[:count].bool()
    middle = inputs.lengths // 2
    ids[paired, middle[paired]] = CLS
    ids[paired, middle[paired] - 1] = SEP
    inside = (lane >= middle[:, None]) & (lane < inputs.lengths[:, None])
    languages = torch.where(paired[:, None], torch.tensor([1, 2]), torch.tensor([0, 0]))
    labels = torch.where(paired, 2, 0)[:, None]
    return inputs._replace(
        token_ids=ids, segment_ids=(inside & paired[:, None]).long(), languages=languages,
        pair_labels=labels,
    )  # fmt: skip


def stage_of(objective: str, extra: str = "") -> Stage:
    return program(objective, SEQ, f"{DATA} {extra}").stages[0]


def made(objective: str, inputs: Inputs, extra: str = "") -> MicroBatch:
    return corrupt(stage_of(objective, extra), inputs, vocab(), 3)


def test_a_translation_has_its_own_positions_and_language():
    inputs = mixed()
    reading = made("mlm+tlm", inputs).reading
    assert reading.position_ids is not None
    assert reading.language_ids is not None
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
    terms = stage_of("mlm+tlm").objective
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
    found = losses(model, batch, model.read(batch.reading))
    for kind, which in (("mlm", ONE == 0), ("tlm", ONE == 1)):
        own = Inputs(*(tensor[which] for tensor in inputs))
        part = corrupt(stage, own, vocab(), 3)
        one = losses(model, part, model.read(part.reading))
        torch.testing.assert_close(found[kind].sum, one[kind].sum)
        assert found[kind].count == one[kind].count > 0


def test_boundaries_are_asked_about_where_there_are_spans():
    inputs = mixed(64)
    paired = inputs.languages[:, 0] != inputs.languages[:, 1]
    batch = made("mlm(unit=span)+sbo+tlm", inputs)
    assert batch.terms["sbo"].weights[~paired].any()
    assert not batch.terms["sbo"].weights[paired].any()
    both = made("mlm(unit=span)+sbo+tlm(unit=span)", inputs)
    assert both.terms["sbo"].weights[paired].any()


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_draw_is_without_replacement_and_in_proportion_to_the_weights(alpha):
    """Two of three tokens of weights 4, 2, 1: the pairs have Plackett and Luce's chances."""
    count = 6000
    ids = torch.tensor([CLS, 20, 21, 22, SEP, 0, 0, 0]).repeat(count, 1)
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
