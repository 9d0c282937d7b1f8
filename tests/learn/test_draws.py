"""The hash behind every mask is even, independent of all neighbours, and the same everywhere."""

import itertools

import pytest
import torch
from scipy import stats
from torch.utils._pytree import tree_leaves

from bertc.ir.address import key
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, corrupt
from bertc.learn.objectives.draws import another, below, bits, happens, smallest, unit, unit64
from tests.learn.material import chosen, corrupted, program, rows, vocab

B, N = 512, 256
ROWS = torch.arange(B)
NONE = torch.zeros(B, dtype=torch.long)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """In standard deviations of what independent numbers would give."""
    both = torch.stack([a.double().flatten(), b.double().flatten()])
    return abs(torch.corrcoef(both)[0, 1].item()) * a.numel() ** 0.5


def uniform(key: int, copies_b: torch.Tensor, rows_b: torch.Tensor, lanes: int) -> torch.Tensor:
    """Numbers (b, lanes) in [0, 1)."""
    return unit(bits(key, copies_b, rows_b, lanes))


def even(values: torch.Tensor, cells: int) -> bool:
    counts = torch.bincount(values.flatten(), minlength=cells)
    return float(stats.chisquare(counts.numpy()).pvalue) > 1e-4


@pytest.mark.parametrize("which", [0, 1, key(7, "mask"), 2**63 - 1])
def test_values_fill_the_unit_interval_evenly(which):
    u = uniform(which, NONE, ROWS, N)
    assert u.dtype == torch.float32
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-4
    assert even((u * 256).long(), 256)


def test_pairs_and_triples_of_lanes_fill_their_squares_and_cubes():
    cell = (uniform(3, NONE, ROWS, 3 * 85) * 16).long().view(B, 85, 3)
    assert even(cell[..., 0] * 16 + cell[..., 1], 256)
    assert even((cell[..., 0] * 16 + cell[..., 1]) * 16 + cell[..., 2], 4096)


def test_neighbouring_rows_fill_the_square():
    cell = (uniform(3, NONE, ROWS, N) * 16).long()
    assert even(cell[:-1:2] * 16 + cell[1::2], 256)


def test_no_correlation_between_neighbours_of_any_kind():
    base = uniform(5, NONE, ROWS, N)
    others = [
        uniform(6, NONE, ROWS, N),
        uniform(5, NONE + 1, ROWS, N),
        uniform(5, NONE, ROWS + 1, N),
        uniform(5, NONE, ROWS + 2**32, N),
        uniform(5, NONE + 1, ROWS - 1, N),
    ]
    for a, b in itertools.combinations([base, *others], 2):
        assert correlation(a, b) < 5
    for lag in (1, 2, 3, 64):
        assert correlation(base[:, lag:], base[:, :-lag]) < 5
        assert correlation(base[lag:], base[:-lag]) < 5


def test_every_high_bit_is_fair_and_independent_of_the_next():
    drawn = bits(11, NONE, ROWS, N)
    places = torch.stack([(drawn >> shift) & 1 for shift in range(24, 64)])
    mean = places.double().mean((1, 2))
    assert ((mean - 0.5).abs() < 5 * 0.5 / (B * N) ** 0.5).all()
    assert all(correlation(a, b) < 5 for a, b in itertools.pairwise(places))


def test_changing_one_bit_of_an_address_changes_half_the_bits_drawn():
    before = bits(0, NONE, ROWS, 8)
    for shift in (0, 5, 17, 31, 40):
        after = bits(0, NONE, ROWS ^ (1 << shift), 8)
        flipped = ((before ^ after)[..., None] >> torch.arange(32, 64)) & 1
        assert abs(flipped.double().mean().item() - 0.5) < 0.005


def test_a_row_does_not_depend_on_its_batch():
    whole = bits(9, NONE + 4, ROWS, N)
    order = torch.randperm(B, generator=torch.Generator().manual_seed(0))
    assert torch.equal(bits(9, NONE + 4, ROWS[order], N), whole[order])
    assert torch.equal(bits(9, NONE[:3] + 4, ROWS[:3], N // 2), whole[:3, : N // 2])


def test_values_are_the_same_for_ever():
    drawn = bits(key(1, "mask"), torch.tensor([2]), torch.tensor([3]), 2)
    assert drawn.tolist() == [[-7096903763572434415, -4227094233021402184]]


@pytest.mark.parametrize("limit", [2, 3, 30_522, 1_000_003])
def test_integers_are_even_below_their_limit(limit):
    drawn = below(bits(2, NONE, ROWS, N), limit)
    assert drawn.min() >= 0
    assert drawn.max() < limit
    assert even(drawn * min(limit, 64) // limit, min(limit, 64)) or limit % 64


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_events_happen_at_their_rate(probability):
    happened = happens(bits(2, NONE, ROWS, N), probability).double().mean().item()
    spread = (probability * (1 - probability) / (B * N)) ** 0.5
    assert abs(happened - probability) <= 4 * spread


def test_fine_values_have_53_bits():
    fine = unit64(bits(2, NONE, ROWS, N))
    assert fine.dtype == torch.float64
    assert stats.kstest((fine * 2**30 % 1).flatten().numpy(), "uniform").pvalue > 1e-4


def test_second_numbers_know_nothing_of_the_first():
    first = bits(2, NONE, ROWS, N)
    second = unit(another(first))
    assert correlation(unit(first), second) < 5
    cell = (unit(first) * 16).long() * 16 + (second * 16).long()
    assert even(cell, 256)
    few = second[unit(first) < 1 / 64]
    assert stats.kstest(few.numpy(), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("many", [1, 20, N])
def test_the_smallest_of_a_row_ascend(many):
    drawn = bits(2, NONE, ROWS, N)
    assert torch.equal(smallest(drawn, many), drawn.sort(dim=1).values[:, :many])


TERMS = (
    "mlm",
    "mlm(unit=word)+nsp",
    "mlm(unit=ngram(3))+sop",
    "mlm(unit=span, replace_per=span, random_from=corpus)+sbo",
    "plm",
    "plm(k=3, unit=pieces, block=12)+sop",
    "mlm(count=stochastic, mask_specials=true, random_from=ordinary)",
)


def tensors(batch: MicroBatch) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(batch) if leaf is not None]


def some(inputs: Inputs, which: torch.Tensor) -> Inputs:
    return Inputs(*(part[which] for part in inputs))


@pytest.mark.parametrize("terms", TERMS)
def test_a_row_does_not_depend_on_the_rows_beside_it(terms):
    inputs, vocabulary = rows(24, 48), vocab()
    stage = program(terms, 48).stages[0]
    whole = tensors(corrupt(stage, inputs, vocabulary, 3))
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    for which in (shuffled, torch.arange(5), torch.tensor([17])):
        part = tensors(corrupt(stage, some(inputs, which), vocabulary, 3))
        assert all(torch.equal(a, b[which]) for a, b in zip(part, whole, strict=True))


@pytest.mark.parametrize("terms", TERMS)
def test_no_number_is_read_from_the_device(terms):
    """A GPU would be waited for; a device without values has none to give."""
    inputs = Inputs(*(tensor.to("meta") for tensor in rows(4, 24)))
    sizes, tables = vocab()[:5], vocab()[5:9]
    vocabulary = VocabTensors(*sizes, *(table.to("meta") for table in tables))
    batch = corrupt(program(terms, 24).stages[0], inputs, vocabulary, 5)
    assert all(tensor.is_meta for tensor in tensors(batch))


@pytest.mark.parametrize("terms", TERMS)
def test_the_same_address_gives_the_same_mask_and_another_a_new_one(terms):
    inputs = rows(64, 48, full=True)
    base = chosen(corrupted(terms, inputs))
    torch.manual_seed(1)  # no part of any address
    assert torch.equal(base, chosen(corrupted(terms, inputs)))
    for other in (
        corrupted(terms, inputs._replace(copies=inputs.copies + 1)),
        corrupted(terms, inputs._replace(example_ids=inputs.example_ids + 64)),
        corrupted(terms, inputs, seed=1),
    ):
        same = (base & chosen(other)).sum() / base.sum()
        assert same < 0.5  # two masks share as many of their tokens as they are of all
