"""The hash behind every mask is the same everywhere, and a mask depends on its address alone."""

import itertools
from hashlib import sha256

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


def even(values: torch.Tensor, cells: int) -> bool:
    counts = torch.bincount(values.flatten(), minlength=cells)
    return float(stats.chisquare(counts.numpy()).pvalue) > 1e-4


def test_a_row_does_not_depend_on_its_batch():
    whole = bits(9, NONE + 4, ROWS, N)
    order = torch.randperm(B, generator=torch.Generator().manual_seed(0))
    assert torch.equal(bits(9, NONE + 4, ROWS[order], N), whole[order])
    assert torch.equal(bits(9, NONE[:3] + 4, ROWS[:3], N // 2), whole[:3, : N // 2])


def test_values_are_the_same_for_ever():
    """Of this hash all that is needed was measured: it is even in one, two and three lanes and in
    neighbouring rows, no two addresses correlate, and a changed bit changes half of those drawn.
    """
    drawn = bits(key(1, "mask"), torch.tensor([2]), torch.tensor([3]), 2)
    assert drawn.tolist() == [[-7096903763572434415, -4227094233021402184]]
    rows, digest = torch.cat([torch.arange(40), torch.arange(40) + 2**32]), sha256()
    for which, copy in itertools.product((0, 7, 2**63 - 1), (0, 1, 5)):
        drawn = bits(which, torch.full_like(rows, copy), rows, N)
        for numbers in (drawn, another(drawn), unit(drawn), unit64(drawn)):
            digest.update(numbers.numpy().tobytes())
    assert digest.hexdigest() == "b97fa02a91b89b7d62b618681f8b099a95a280fb3614c2ed9191c4d166b44f26"


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


@pytest.mark.parametrize("many", [1, 20, N])
def test_the_smallest_of_a_row_ascend(many):
    drawn = bits(2, NONE, ROWS, N)
    assert torch.equal(smallest(drawn, many), drawn.sort(dim=1).values[:, :many])


TERMS = (
    "mlm", "mlm(unit=word)+nsp", "mlm(unit=ngram(3))+sop",
    "mlm(unit=span, replace_per=span, random_from=corpus)+sbo", "plm",
    "plm(k=3, unit=pieces, block=12)+sop",
    "mlm(count=stochastic, mask_specials=true, random_from=ordinary)",
)  # fmt: skip


def tensors(batch: MicroBatch) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(batch) if leaf is not None]


@pytest.mark.parametrize("terms", TERMS)
def test_a_row_does_not_depend_on_its_neighbours(terms):
    inputs, vocabulary = rows(24, 48), vocab()
    stage = program(terms, 48).stages[0]
    whole = tensors(corrupt(stage, inputs, vocabulary, 3))
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    for which in (shuffled, torch.arange(5), torch.tensor([17])):
        part = tensors(corrupt(stage, Inputs(*(x[which] for x in inputs)), vocabulary, 3))
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
