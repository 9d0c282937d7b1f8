"""DeBERTa's attention and enhanced mask decoder against transformers' DebertaV2Model."""

import pytest
import torch
import transformers

from bertc.api import resolve
from bertc.cost import estimate
from bertc.ir.network.attention import DisentangledAttention
from bertc.ir.network.body_node import Wanted
from bertc.ir.program.resolved import trained_names
from bertc.model import EncoderInputs, Model, gather_positions
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
def copied(model: Model, reference: transformers.DebertaV2Model) -> dict[str, torch.Tensor]:
    """Weights of transformers' model by their names in ours, whose values all of them take."""
    weights, there = dict(reference.named_parameters()), {}
    for name, weight in model.named_parameters():
        for own, other in NAMES.items():
            if name.startswith(own):
                there[name] = weights.pop(name.replace(own, other)).copy_(weight)
    assert not weights
    return there


@torch.no_grad()
def test_states_are_those_of_transformers():
    reference, ours = deberta(), made()
    there = copied(ours, reference)
    assert there.keys() == {n for n, _ in ours.named_parameters() if "heads." not in n}
    for mask in (torch.ones(B, SEQ, dtype=torch.bool), MASK):
        expected = reference(input_ids=IDS, attention_mask=mask.long()).last_hidden_state
        found = ours.read(EncoderInputs(IDS, attention_mask=mask))
        torch.testing.assert_close(found[mask], expected[mask], atol=2e-5, rtol=1e-4)


def test_distances_have_the_published_buckets():
    kind = DisentangledAttention()
    found = {apart: kind.row_of(apart) - 256 for apart in (1, 127, 128, 129, 130, 200, 256, 400)}
    assert found == {1: 1, 127: 127, 128: 128, 129: 129, 130: 130, 200: 169, 256: 192, 400: 233}
    far = [kind.row_of(apart) for apart in (511, 512, 9000, -511, -512, -9000)]
    assert far == [511, 511, 511, 1, 0, 0]


@torch.no_grad()
def test_padding_changes_nothing_and_attends_to_nothing():
    model = made()
    assert_alone(model, SEQ)
    part, inputs = model.encoder.attention["0"], EncoderInputs(IDS, attention_mask=MASK)
    x = torch.randn(B, SEQ, H)
    y = part(x, None, model.encoder._contexts(inputs, x)[0])
    assert torch.equal(y[~MASK], part.output.bias.expand(21, H))
    # Its table has dropout in every layer.
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


DECODER = f"layers={LAYERS} hidden={H} heads={N} vocab={V} seq={SEQ} head=transform(decoder=128) "
OFFICIAL = f"{KIND} positions=none segments=0 norm=post(1e-7)"
LOCAL = "attention=local(8) positions=rotary norm=pre"


def decoding(extra: str = f"{OFFICIAL} dropout=0") -> Model:
    return drawn(resolve(DECODER + extra), 0.3)


def decoded(model: Model, inputs: EncoderInputs) -> torch.Tensor:
    return model.read_on(inputs, request=Wanted(last=False, decoded=True)).decoded


def test_states_and_gradients_are_those_of_the_last_layer_twice():
    reference, ours = deberta(), decoding()
    own, there = dict(ours.named_parameters()), copied(ours, reference)
    positions = own["encoder.decoder_positions.weight"]
    learned = positions.detach().clone().requires_grad_()
    encoder, mask_b1ss = reference.encoder, reference.encoder.get_attention_mask(MASK)
    # One layer fewer: these states are keys and values of the last one.
    below = reference(input_ids=IDS, attention_mask=MASK.long(), output_hidden_states=True)
    keys = below.hidden_states[-2]
    rows, table = encoder.get_rel_pos(keys), encoder.get_rel_embedding()
    x = keys + learned[:SEQ]
    for _ in range(2):
        x, _ = encoder.layer[-1](keys, mask_b1ss, x, rows, table, False)
    found = decoded(ours, EncoderInputs(IDS, attention_mask=MASK))
    torch.testing.assert_close(found[MASK], x[MASK], atol=1e-4, rtol=1e-4)
    for states in x, found:
        states[MASK].sin().sum().backward()
    torch.testing.assert_close(positions.grad, learned.grad, atol=1e-4, rtol=1e-4)
    for name, weight in there.items():
        rest = slice(1, None) if "token" in name else slice(None)  # of the padding token
        torch.testing.assert_close(
            own[name].grad[rest], weight.grad[rest], atol=1e-4, rtol=1e-3,
            msg=lambda m, n=name: f"{n}: {m}",
        )  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("extra", [OFFICIAL, "", LOCAL, "norm=pre share=all"])
def test_states_of_a_few_positions_are_those_of_all(extra):
    model, at = decoding(f"{extra} dropout=0"), torch.tensor([[3, 68, 0], [5, 5, 60]])
    inputs = EncoderInputs(IDS, attention_mask=MASK)
    some, every = decoded(model, inputs.asked(None, at)), decoded(model, inputs)
    torch.testing.assert_close(some, gather_positions(every, at))
    last = model.read(inputs)
    both = model.read_on(inputs.asked(at, at), request=Wanted(decoded=True))
    torch.testing.assert_close(both.decoded, some)
    torch.testing.assert_close(both.last, gather_positions(last, at))
    assert (every - last).abs().max() > 0.05


@pytest.mark.parametrize("extra", [OFFICIAL, LOCAL])
def test_packed_rows_are_decoded_alone(extra):
    model, first = decoding(f"{extra} dropout=0"), 40
    sequence_ids = (torch.arange(SEQ) >= first).long().expand(B, SEQ) + 1
    packed = decoded(model, EncoderInputs(IDS, sequence_ids=sequence_ids))
    apart = [decoded(model, EncoderInputs(ids)) for ids in (IDS[:, :first], IDS[:, first:])]
    torch.testing.assert_close(packed, torch.cat(apart, dim=1), atol=1e-5, rtol=1e-5)


def test_recomputed_gradients_are_the_same():
    model, inputs = decoding(f"{OFFICIAL} dropout=0.1").train(), EncoderInputs(IDS)
    found = []
    for recompute in False, True:
        torch.manual_seed(3)
        model.encoder.recompute = recompute
        model.zero_grad()
        decoded(model, inputs.asked(None, torch.arange(8).expand(B, 8))).sin().sum().backward()
        found.append([each.grad for each in model.encoder.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        assert (plain is None) == (recomputed is None)
        if plain is not None:
            torch.testing.assert_close(plain, recomputed)


def test_only_a_network_that_predicts_masked_tokens_has_one():
    (stage,) = resolve(f"{DECODER} objective=rtd*50+mlm generator=1").stages
    assert not stage.encoder.head.decoder
    assert stage.generator.head.decoder
    assert "generator.decoder_positions.weight" in trained_names(stage)
    assert not resolve(f"{DECODER} objective=nsp format=segment-pair").encoder.head.decoder
