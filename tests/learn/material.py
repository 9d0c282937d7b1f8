"""A small made-up vocabulary, rows of it, and stages to corrupt them for."""

import torch

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import Inputs, Losses, MicroBatch, VocabTensors, corrupt
from bertc.learn.objectives.term import TermLoss
from bertc.model import Model
from bertc.model.body import Outputs

VOCAB, ORDINARY, CONTINUES = 1000, 10, 700
PAD, CLS, SEP, MASK = 0, 2, 3, 4


def vocab(continues: int = CONTINUES) -> VocabTensors:
    """Ids 0-9 are special, those from ``continues`` on go on with a word."""
    ids = torch.arange(VOCAB)
    frequency = (1 / (ids + 1.0)).double()
    frequency[:ORDINARY] = 0
    return VocabTensors(
        size=VOCAB, pad=PAD, cls=CLS, sep=SEP, mask=MASK,
        word_start=ids < continues, special=ids < ORDINARY,
        unigram_cdf=(frequency / frequency.sum()).cumsum(0),
        frequency=(frequency / frequency.sum()).clamp(min=1e-6),
    )  # fmt: skip


def rows(
    count: int, seq: int, *, full: bool = False, pairs: bool = True, seed: int = 1,
    long: tuple[int, ...] = (),
) -> Inputs:  # fmt: skip
    """[CLS] A [SEP] B [SEP] or [CLS] A [SEP], of any length from 4 to ``seq`` unless ``full``.
    ``long``: the length of each.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(ORDINARY, VOCAB, (count, seq), generator=generator)
    lengths = torch.randint(4, seq + 1, (count,), generator=generator)
    if full or long:
        lengths = torch.tensor(long or [seq] * count)
    lane = torch.arange(seq)
    ids[:, 0] = CLS
    ids[lane == lengths[:, None] - 1] = SEP
    middle = lengths[:, None] // 2
    if pairs:
        ids[lane == middle] = SEP
    ids[lane >= lengths[:, None]] = PAD
    segments = ((lane > middle) & (lane < lengths[:, None]) & pairs).long()
    labels = torch.randint(0, 2, (count,), generator=generator)
    zeros = torch.zeros_like(labels)
    return Inputs(
        ids, segments, lengths, torch.arange(count), zeros, zeros[:, None], labels[:, None],
        zeros[:, None].expand(-1, 2), zeros - 1, zeros,
    )  # fmt: skip


def program(objective: str, seq: int, extra: str = "") -> Resolved:
    """A toy encoder trained on one objective."""
    size = "layers=1 hidden=16 heads=2 ffn=32 vocab=1000 dropout=0 "
    return resolve(f"{size} objective={objective} seq={seq} {extra}")


def corrupted(
    objective: str, inputs: Inputs, vocabulary: VocabTensors | None = None, seed: int = 0
) -> MicroBatch:
    """What an objective makes of rows."""
    stage = program(objective, inputs.token_ids.shape[1]).stages[0]
    return corrupt(stage, inputs, vocabulary or vocab(), seed)


def chosen(batch: MicroBatch) -> torch.Tensor:
    """Marks (b, s) on the tokens to predict, once it is sure that each is named once."""
    drawn = [batch.terms[name] for name in ("mlm", "tlm", "plm") if name in batch.terms][0]
    positions, weights = drawn.positions, drawn.weights
    marks = torch.zeros_like(batch.originals).scatter_add_(1, positions, weights.long())
    assert marks.max() <= 1
    return marks.bool()


def losses(model: Model, batch: MicroBatch, hidden: torch.Tensor) -> dict[str, TermLoss]:
    """The losses of the last network of the first stage from its states."""
    stage = model.resolved.stages[0]
    return Losses(model, stage, stage.networks()[-1])(batch, Outputs(hidden))
