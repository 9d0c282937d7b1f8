"""Disentangled attention against transformers' DebertaV2Model, and what it must not read."""

import pytest
import torch
import transformers

from bertc.api import resolve
from bertc.cost import estimate
from bertc.ir.network.attention import DisentangledAttention
from bertc.model import EncoderInputs, Model
from tests.model.material import assert_alone, drawn

B, V, H, N, LAYERS, SEQ = 2, 300, 32, 4, 3, 90
KIND = "attention=disentangled(16, 64)"
BASE = f"layers={LAYERS} hidden={H} heads={N} vocab={V} seq={SEQ} segments=0 norm=post(1e-7) "
MASK = torch.arange(SEQ) < torch.tensor([[SEQ], [SEQ - 21]])
IDS = torch.randint(5, V, (B, SEQ), generator=torch.Generator().manual_seed(1))
NAMES = {
    "encoder.relative.distance.": "encoder.rel_embeddings.",
    "encoder.relative.norm.": "encoder.LayerNorm.",
    "encoder.embeddings.token.": "embeddings.word_embeddings.",
    "encoder.embeddings.norm.": "embeddings.LayerNorm.",
    **{
        f"encoder.{part}.{n}.{own}.": f"encoder.layer.{n}.{reference}."
        for n in range(LAYERS)
        for part, own, reference in (
            *(("attention", x, f"attention.self.{x}_proj") for x in ("query", "key", "value")),
            ("attention", "output", "attention.output.dense"),
            ("attention", "norm", "attention.output.LayerNorm"),
            ("ffn", "inner", "intermediate.dense"),
            ("ffn", "outer", "output.dense"),
            ("ffn", "norm", "output.LayerNorm"),
        )
    },
}


def made(extra: str = "dropout=0") -> Model:
    return drawn(resolve(BASE + f"{KIND} " * ("attention=" not in extra) + extra), 0.3)


def deberta() -> transformers.DebertaV2Model:
    """The model of transformers that these settings describe."""
    config = transformers.DebertaV2Config(
        vocab_size=V, hidden_size=H, num_hidden_layers=LAYERS, num_attention_heads=N,
        intermediate_size=4 * H, max_position_embeddings=64, type_vocab_size=0,
        relative_attention=True, position_buckets=16, pos_att_type="p2c|c2p", share_att_key=True,
        norm_rel_ebd="layer_norm", position_biased_input=False, layer_norm_eps=1e-7,
    )  # fmt: skip
    return transformers.DebertaV2Model(config).eval()


@torch.no_grad()
def test_states_are_those_of_transformers():
    reference, ours = deberta(), made()
    weights = reference.state_dict()
    assert sum(each.numel() for each in weights.values()) == sum(
        each.numel() for name, each in ours.named_parameters() if "heads." not in name
    )
    for name, weight in ours.named_parameters():
        for own, name_there in NAMES.items():
            if name.startswith(own):
                weights.pop(name.replace(own, name_there)).copy_(weight)
    assert not weights
    for mask in (torch.ones(B, SEQ, dtype=torch.bool), MASK):
        expected = reference(input_ids=IDS, attention_mask=mask.long()).last_hidden_state
        found = ours.read(EncoderInputs(IDS, attention_mask=mask))
        torch.testing.assert_close(found[mask], expected[mask], atol=2e-5, rtol=1e-4)


def test_distances_have_the_published_buckets():
    kind = DisentangledAttention()
    found = {apart: kind.row_of(apart) - 256 for apart in (1, 127, 128, 129, 130, 200, 256, 400)}
    assert found == {1: 1, 127: 127, 128: 128, 129: 129, 130: 130, 200: 169, 256: 192, 400: 233}
    assert [kind.row_of(apart) for apart in (511, 512, 9000, -511, -512, -9000)] == [
        511, 511, 511, 1, 0, 0,
    ]  # fmt: skip


@torch.no_grad()
def test_padding_changes_nothing_and_attends_to_nothing():
    model = made()
    assert_alone(model, SEQ)
    part, inputs = model.encoder.attention["0"], EncoderInputs(IDS, attention_mask=MASK)
    x = torch.randn(B, SEQ, H)
    y = part(x, None, model.encoder._contexts(inputs, x)[0])
    assert torch.equal(y[~MASK], part.output.bias.expand(21, H))


def test_the_table_has_dropout_in_every_layer():
    model = made("dropout=dropout(0.5, 0)")
    part, inputs, x = model.encoder.attention["0"], EncoderInputs(IDS), torch.randn(B, SEQ, H)
    context = model.encoder._contexts(inputs, x)[0]
    assert torch.equal(part(x, None, context), part(x, None, context))
    part.train()
    assert not torch.equal(part(x, None, context), part(x, None, context))


def test_a_forward_pass_of_the_base_size_has_the_published_products():
    spec = "layers=12 hidden=768 heads=12 vocab=128100 segments=0 norm=post(1e-7) seq=128 steps=10"
    spec += " attention=disentangled objective=mlm(p=100%) batch=1 microbatch=1"
    found = estimate(resolve(spec)).stages[0].flops.forward_per_example
    assert found == pytest.approx(64_595_165_184, rel=1e-4)
