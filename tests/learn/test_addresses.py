"""A mask belongs to its example: batches, orders, copies and seeds."""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, corrupt
from tests.learn.material import chosen, corrupted, program, rows, vocab

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
    sizes, tables = vocab()[:5], vocab()[5:]
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
