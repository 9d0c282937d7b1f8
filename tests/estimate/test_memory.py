"""Memory: what it adds up to, what makes it grow, and what autograd really keeps."""

import pytest
import torch

from bertc.api import resolve
from bertc.estimate import estimate, largest_microbatches
from bertc.estimate.memory import encoder_kept
from bertc.ir.resolved import Resolved, head_kept
from bertc.nn import build
from bertc.objectives import Boundaries, Columns, Predictions, Questions, losses
from bertc.passes import Machine

GIB = 2**30


def test_parts_add_up() -> None:
    found = estimate(resolve("bert-base"))
    for memory in (found.memory, *(stage.memory for stage in found.stages)):
        states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
        assert memory.peak_bytes == states + memory.activations_bytes
    assert found.memory.weights_bytes == 4 * found.parameters.total
    assert found.memory.optimizer_bytes == 8 * found.parameters.total
    assert found.memory.peak_bytes == max(stage.memory.peak_bytes for stage in found.stages)


def test_the_micro_batch_is_what_the_spec_sets_or_what_fits() -> None:
    assert estimate(resolve("extends bert-base microbatch=8")).memory.microbatch == 8
    big = estimate(resolve("extends bert-large seq=512 batch=4096 steps=10k"), "l4").memory
    assert 0 < big.microbatch <= big.largest_microbatch < 4096
    assert 4096 % big.microbatch == 0
    assert big.peak_bytes <= 22 * GIB


def test_a_model_that_does_not_fit_says_so() -> None:
    found = estimate(resolve("layers=96 hidden=8192 seq=512 steps=10k"), "t4").memory
    assert found.largest_microbatch == 0
    assert found.microbatch == 1
    assert found.peak_bytes > 14 * GIB


def test_largest_microbatches_of_a_machine() -> None:
    resolved = resolve("bert-base")
    machine = Machine("cuda", "a card", 12 * GIB, fast_bf16=True, cores=8)
    short, long = largest_microbatches(resolved, machine)
    assert short > long > 0
    slow = Machine("cuda", "a card", 12 * GIB, fast_bf16=False, cores=8)
    assert largest_microbatches(resolved, slow)[1] < long


KEPT = [
    "dropout=0",
    "dropout=0 norm=pre",
    "dropout=0 share=all E=16",
    "dropout=0 activation=relu segments=0",
    "dropout=0 ffn=[64, 512, 128]",
    "dropout=dropout(0.1, 0)",
    "dropout=0.1",
    "dropout=0 objective=mlm+sop",
    "dropout=0 objective=span+sbo format=single-segment",
]


def bytes_saved(resolved: Resolved, dtype: torch.dtype, batch: int) -> int:
    """Bytes of all distinct tensors that autograd saves in a forward pass, and of its states."""
    model, stage = build(resolved), resolved.stages[0]
    model.compute_dtype = dtype
    found: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage
        return tensor

    ids = torch.zeros(batch, stage.seq, dtype=torch.long)
    asked = torch.zeros(batch, stage.predictions(), dtype=torch.long)
    columns = Columns(
        token_ids=ids,
        segment_ids=torch.zeros_like(ids),
        attention_mask=None,
        sequence_ids=None,
        originals=ids,
        pairs=Questions(ids[:, :1], ids[:, :1], ids[:, :1].float()),
        mlm=Predictions(asked, asked, asked.float()),
        sbo=Boundaries(asked, asked, asked, asked, asked.float()),
    )
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        hidden = note(model.encode(columns.token_ids, columns.segment_ids))
        pooled = model.pool(hidden, ids[:, :1]) if resolved.encoder.pooler else None
        losses(stage, resolved.encoder, columns, hidden, pooled, model.head_weights())
    return sum(storage.nbytes() for storage in found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("extra", KEPT)
def test_what_autograd_keeps_of_an_example(extra: str, dtype: torch.dtype) -> None:
    resolved = resolve(f"layers=3 hidden=64 heads=4 vocab=500 seq=64 {extra}")
    encoder = resolved.encoder
    kept = encoder_kept(encoder, seq=64, fused=not encoder.dropout.attention)
    kept += head_kept(resolved.stages[0], encoder)
    # On a CPU dropout masks are kept as values.
    counted = dtype.itemsize * (kept.values + kept.masks) + 4 * kept.fp32
    saved = (bytes_saved(resolved, dtype, 4) - bytes_saved(resolved, dtype, 2)) / 2
    assert counted == pytest.approx(saved, rel=0.02)
