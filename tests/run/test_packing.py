"""Several examples in a row give what each gives in a row of its own."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import corrupt
from bertc.learn.objectives.targets import (
    Boundaries,
    Inputs,
    MicroBatch,
    PairTargets,
    Predictions,
    ReplacedTokens,
)
from bertc.learn.objectives.terms import with_output_positions
from bertc.learn.step.objective import make_objective
from bertc.model import EncoderInputs, build
from bertc.model.attention.masks import end_to_end
from tests.learn.material import VOCAB, rows, vocab

PACKS = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9]]
ROOM = 48
LENGTHS = (12, 9, 20, 30, 18, 48, 7, 8, 11, 5)
SPECS = [
    "objective=mlm+sop",
    "objective=span+sbo+nsp norm=pre share=all E=16",
    "objective=mlm positions=learned(50, offset=2) segments=0 format=doc-sentences",
    "objective=50*rtd+mlm generator=network(hidden=16, heads=1) format=doc-sentences",
    "objective=rtd(over=masked)+mlm(unit=span)+sop generator=network(0.5, tie=none)",
]


def program(extra: str) -> Resolved:
    return resolve(
        f"layers=2 hidden=32 heads=2 vocab={VOCAB} seq={ROOM} batch=4 dropout=0 pack=true {extra}"
    )


def examples() -> Inputs:
    return rows(len(LENGTHS), ROOM, long=LENGTHS)


def packed(stage: Stage, batch: MicroBatch) -> MicroBatch:
    """The batch of padded rows, moved with all their predictions into packed ones."""
    offsets = {}
    for members in PACKS:
        start = 0
        for i in members:
            offsets[i], start = start, start + LENGTHS[i]

    def tokens(rows: torch.Tensor) -> torch.Tensor:
        joined = [torch.cat([rows[i, : LENGTHS[i]] for i in members]) for members in PACKS]
        return torch.stack([torch.nn.functional.pad(r, (0, ROOM - len(r))) for r in joined])

    def slots(values: torch.Tensor, shift: bool) -> torch.Tensor:
        """Each example's entries beside each other; ``shift`` moves positions with the text."""
        moved = [values[i] + (offsets[i] if shift else 0) for i in range(len(LENGTHS))]
        rows = [torch.cat([moved[i] for i in members]) for members in PACKS]
        return pad_sequence(rows, batch_first=True)

    numbers = [torch.full((ROOM,), n) for members in PACKS for n in range(1, len(members) + 1)]

    def reading(padded: EncoderInputs) -> EncoderInputs:
        return EncoderInputs(
            token_ids=tokens(padded.token_ids),
            segment_ids=tokens(padded.segment_ids),
            sequence_ids=tokens(torch.stack(numbers)),
        )

    def replacements(padded: ReplacedTokens) -> ReplacedTokens:
        weights, classified = slots(padded.weights, False), padded.classified
        whole = classified.shape == batch.originals.shape
        used = weights.long()  # slots not used hold position 0 of the row, wherever the text is
        return ReplacedTokens(
            slots(padded.positions, True) * used, weights, slots(padded.chances, False),
            tokens(classified) if whole else weights,
        )  # fmt: skip

    def moved(own: tuple[torch.Tensor, ...]) -> object:
        match own:
            case ReplacedTokens():
                return replacements(own)
            case PairTargets() | Predictions():
                others = (slots(each, False) for each in own[1:3])
                return type(own)(slots(own.positions, True), *others)
            case Boundaries():
                beside = (slots(own.left, True), slots(own.right, True))
                return Boundaries(*beside, *(slots(each, False) for each in own[2:]))
            case _:
                raise AssertionError(own)

    packed = batch._replace(
        reading=reading(batch.reading),
        masked=batch.masked and reading(batch.masked),
        originals=tokens(batch.originals),
        terms={name: moved(own) for name, own in batch.terms.items()},
    )
    return with_output_positions(stage, packed)


def results(resolved: Resolved, batch: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Sums and hits of the terms, and the gradient of every weight."""
    model = build(resolved).train()
    stage = resolved.stages[0]
    factors = torch.full((len(stage.objective),), 0.01)
    loss, statistics, _ = make_objective(model, stage, compiled=False)(batch, factors)
    loss.backward()
    return statistics, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def both(extra: str) -> tuple[Resolved, MicroBatch, MicroBatch]:
    resolved = program(extra)
    apart = resolved.stages[0].model_copy(update={"pack": False, "padded": True})
    padded = corrupt(apart, examples(), vocab(), 1)
    return resolved, padded, packed(resolved.stages[0], padded)


@pytest.mark.parametrize("extra", SPECS)
def test_losses_and_gradients_equal_those_of_padded_rows(extra):
    resolved, padded, together = both(extra)
    statistics, gradients = results(resolved, padded)
    found, moved = results(resolved, together)
    torch.testing.assert_close(found, statistics, atol=1e-5, rtol=1e-5)
    assert statistics[0].min() > 1
    assert moved.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(moved[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def one_by_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    offsets: torch.Tensor, other: torch.Tensor, longest: int, longest_other: int,
) -> torch.Tensor:  # fmt: skip
    """What the kernel for sequences of any length does, on (t, n, d), sequence by sequence."""
    assert torch.equal(offsets, other)
    assert offsets.dtype == torch.int32
    assert offsets.diff().max() <= longest == longest_other
    assert offsets[0] == 0
    assert offsets[-1] == len(query)
    parts = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        q, k, v = (x[start:end].transpose(0, 1) for x in (query, key, value))
        parts.append(torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1))
    return torch.cat(parts)


def test_the_kernel_for_any_length_sees_the_same(monkeypatch):
    resolved, _, together = both(SPECS[1])
    statistics, gradients = results(resolved, together)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", one_by_one)
    monkeypatch.setattr("bertc.model.attention.kinds.can_varlen", lambda *_: True)
    found, moved = results(resolved, together)
    torch.testing.assert_close(found, statistics, atol=1e-5, rtol=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(moved[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_sequences_of_rows_lie_end_to_end():
    starts = torch.tensor([[0, 2, 3, 5], [0, 6, 6, 6], [0, 1, 4, 6]])
    offsets = end_to_end(starts, 6).offsets.tolist()
    assert offsets == [0, 2, 3, 5, 6, 12, 12, 12, 12, 13, 16, 18, 18]
    assert len(offsets) == 3 * 4 + 1


def test_corruption_numbers_examples_and_asks_about_each():
    stage = program("objective=mlm+sop").stages[0]
    plain = examples()
    starts = torch.full((1, stage.texts), ROOM)
    starts[0, :3] = torch.tensor([0, 12, 21])
    row = torch.cat([plain.token_ids[i, : LENGTHS[i]] for i in (0, 1, 2)])
    inputs = plain._replace(
        token_ids=torch.nn.functional.pad(row, (0, ROOM - len(row)))[None],
        segment_ids=torch.zeros(1, ROOM, dtype=torch.long), lengths=torch.tensor([41]),
        example_ids=torch.tensor([7]), copies=torch.tensor([0]), starts=starts,
        pair_labels=torch.zeros_like(starts), languages=torch.zeros(1, 2, dtype=torch.long),
        following=torch.full_like(starts[:, 0], -1),
    )  # fmt: skip
    batch = corrupt(stage, inputs, vocab(), 1)
    assert batch.reading.sequence_ids is not None
    assert batch.reading.sequence_ids[0].tolist() == [1] * 12 + [2] * 9 + [3] * 20 + [0] * 7
    assert batch.reading.attention_mask is None
    starts = batch.reading.starts
    assert starts is not None
    # As many places as a row may hold examples, and padding; those not used are empty.
    assert starts[0].tolist() == [0, 12, 21] + [41] * (stage.texts - 3) + [41]
    bounds = end_to_end(starts, ROOM)
    assert bounds.offsets.dtype == torch.int32
    assert bounds.offsets.tolist() == [*starts[0].tolist(), ROOM]
    assert bounds.longest == ROOM
    (pairs,) = (own for own in batch.terms.values() if isinstance(own, PairTargets))
    assert pairs.positions[0].tolist() == [0, 12, 21, 0, 0, 0]
    assert pairs.weights[0].tolist() == [1, 1, 1, 0, 0, 0]
