"""XLNet against transformers: an order, tokens asked about, and a memory before the row."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_map

from bertc.learn.objectives import corrupt
from bertc.model import EncoderInputs, Memory, Model
from bertc.run.models.loading import load
from tests.hub.hf_models import XLNET, Case, case
from tests.learn.material import rows, vocab

CASES = [
    case("XLNetLMHeadModel", XLNET, vocab_size=1000),
    case("XLNetLMHeadModel", XLNET, vocab_size=1000, n_head=2, n_layer=2, clamp_len=9),
]
ROWS, SEQ, MEMORY = 4, 24, 7


def asked_of(
    folder: Path, chosen: Case
) -> tuple[Any, Model, EncoderInputs, dict[str, torch.Tensor]]:
    """Both models and what both read: rows in an order that the objective drew.

    All slots are used, for in others there is a token that may see itself.
    """
    reference, ours = chosen.save(folder), load(folder)
    stage = ours.resolved.stages[0].model_copy(update={"seq": SEQ})
    batch = corrupt(stage, rows(60, SEQ, full=True), vocab(), 4)
    kept = (batch.terms["plm"].weights > 0).all(1).nonzero()[:ROWS, 0]
    reading = tree_map(
        lambda part: None if part is None else part[kept],
        batch.reading._replace(output_positions=None),
    )
    order, segments = reading.permutation, torch.arange(SEQ).expand(ROWS, SEQ) // 10
    assert order is not None
    # As data_utils.py has it: 1 where token i does not see token j.
    hidden = order.rank[:, None, :] >= order.visible_below[:, :, None]
    batch = {
        "input_ids": reading.token_ids, "token_type_ids": segments, "perm_mask": hidden.float(),
        "target_mapping": F.one_hot(order.target_positions, SEQ).float(),
    }  # fmt: skip
    return reference, ours, EncoderInputs(reading.token_ids, segments, permutation=order), batch


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("remembered", [0, MEMORY])
@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_both_streams_agree(chosen, remembered, both_ways, tmp_path):
    reference, ours, reading, batch = asked_of(tmp_path, chosen)
    if both_ways:  # the second half of a batch is backward
        reference.transformer.bi_data = True
        reading = reading._replace(backward=torch.arange(ROWS) // (ROWS // 2))
    width, layers = ours.resolved.encoder.hidden, len(ours.resolved.encoder.layers)
    states = torch.randn(layers, ROWS, remembered, width)
    if remembered:
        reading = reading._replace(memory=Memory(states, torch.tensor(remembered)))
        batch["mems"] = [one.transpose(0, 1) for one in states]
    with torch.no_grad():
        found = ours.read(reading)
        expected = reference.transformer(**batch, use_mems=bool(remembered))
        torch.testing.assert_close(found[:, SEQ:], expected.last_hidden_state, atol=1e-5, rtol=0)
        asked = SEQ + torch.arange(found.shape[1] - SEQ).expand(ROWS, -1)
        few = ours.read(reading._replace(output_positions=asked))
        torch.testing.assert_close(few, expected.last_hidden_state, atol=1e-5, rtol=0)
        content = {k: v for k, v in batch.items() if k != "target_mapping"}
        expected = reference.transformer(**content, use_mems=bool(remembered))
        torch.testing.assert_close(found[:, :SEQ], expected.last_hidden_state, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("length", "reuse"), [(SEQ, None), (SEQ, 10), (9, 9), (9, 20), (30, 11)])
@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_what_is_remembered_agrees(chosen, length, reuse, tmp_path):
    reference, ours, reading, batch = asked_of(tmp_path, chosen)
    encoder = ours.resolved.encoder
    states = torch.randn(len(encoder.layers), ROWS, length, encoder.hidden)
    memory = Memory(states, torch.tensor(length), reuse)
    with torch.no_grad():
        after = ours.encoder(reading._replace(memory=memory), torch.float32).memory
        reference.transformer.mem_len, reference.transformer.reuse_len = length, reuse
        mems = [one.transpose(0, 1) for one in states]
        expected = reference.transformer(**batch, mems=mems, use_mems=True).mems
    assert after is not None
    found = after.states.transpose(1, 2)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)
