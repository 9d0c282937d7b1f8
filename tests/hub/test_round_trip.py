"""Models of transformers come in with the same outputs, in all spellings, and go out alike."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from torch.utils._pytree import tree_map

import bertc
from bertc.hub.leaving.exporting import NEXT, TYPED, UNASKED, export_model
from bertc.ir.network.attention import LocalAttention
from bertc.ir.network.positions import RotaryPositions
from bertc.learn.objectives import corrupt
from bertc.model import EncoderInputs, Memory, Model
from bertc.run.beginning.init_from import source_of
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from tests.hub import hf_models
from tests.hub.hf_models import CASES, DEBERTA, MODERN, MPNET, SMALL, case, config_of, respell
from tests.hub.programs import Wordless, assert_same
from tests.learn.material import rows, vocab

NO_SEGMENTS = (
    "distilbert", "mpnet", "modernbert", "eurobert", "deberta-v2", "esm", "esmc",
    "qwen3", "llama", "mistral", "gemma3_text", "ultrabert",
)  # fmt: skip
LEFT = ("contact_head.regression.weight", "contact_head.regression.bias", "inv_freq")
"""Ends of names of tensors that no state depends on."""


def inputs(model: Any, seq: int) -> dict[str, torch.Tensor]:
    """Three rows as the model reads them: full, padded by one, and padded by half."""
    config, generator = model.config, torch.Generator().manual_seed(seq)
    ids = torch.randint(5, config.vocab_size, (3, seq), generator=generator)
    lengths = torch.tensor([seq, max(1, seq - 1), max(1, seq // 2)])
    mask = torch.arange(seq)[None, :] < lengths[:, None]
    found = {"input_ids": ids.masked_fill(~mask, config.pad_token_id)}
    found["attention_mask"] = mask.long()
    if config.model_type == "xlm":
        found["langs"] = torch.randint(0, config.n_langs, (3, seq), generator=generator)
        found["position_ids"] = (torch.arange(seq) % max(1, seq // 2)).expand(3, seq)
    elif config.model_type not in NO_SEGMENTS:
        most = getattr(config, "type_vocab_size", 3)
        found["token_type_ids"] = torch.randint(0, most, (3, seq), generator=generator)
    return found


def encoded(model: Model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Our states of the same rows."""
    return model.encode(
        batch["input_ids"], batch.get("token_type_ids"), batch["attention_mask"].bool(),
        language_ids=batch.get("langs"), position_ids=batch.get("position_ids"),
    )  # fmt: skip


def mlm_logits(model: Model, hidden: torch.Tensor) -> torch.Tensor:
    """The head over the vocabulary at every position."""
    head = model.heads[model.resolved.terms()[0].objective.head_name]
    table = model.encoder.embeddings.token.get_parameter("weight")
    return head.scores(hidden, table if head.weight is None else head.weight)


def close(ours: torch.Tensor, reference: torch.Tensor) -> bool:
    return bool((ours - reference).abs().max() <= 1e-5)


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """Tensors that states depend on; transformers 5.23 saves ESM's norms by TensorFlow's names."""
    tensors = load_file(folder / "model.safetensors").items()
    plain = {n.replace("gamma", "weight").replace("beta", "bias"): tensor for n, tensor in tensors}
    return {name: tensor for name, tensor in plain.items() if not name.endswith(LEFT)}


@pytest.mark.parametrize("chosen", CASES, ids=str)
def test_outputs_agree_and_tensors_come_back_bit_equal(chosen, tmp_path):
    reference = chosen.save(tmp_path / "in")
    ours = load(tmp_path / "in")
    for seq in (1, 7, 16, 30):
        assert_outputs_agree(ours, reference, inputs(reference, seq))
    imported = import_model(tmp_path / "in")
    kept, words = imported.config.model_type, Wordless(reference.config.pad_token_id, mask=9)
    network = imported.resolved, imported.tensors
    exported = export_model(*network, words, tmp_path / "out", prefer=kept)
    assert exported.architecture == chosen.cls
    both_ways = {"is_causal", "use_bidirectional_attention"} & dict(chosen.settings).keys()
    assert exported.notes == ((TYPED,) if kept in UNASKED else (NEXT,) * len(both_ways))
    before, after = (stored(tmp_path / at) for at in ("in", "out"))
    assert_same(after, before)
    again, info = type(reference).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert kept != "eurobert" or again.config.mask_token_id == 9
    batch = inputs(reference, 9)
    with torch.no_grad():
        assert close(again.eval()(**batch)[0], reference(**batch)[0])


@torch.no_grad()
def assert_outputs_agree(ours: Model, reference: Any, batch: dict[str, torch.Tensor]) -> None:
    """States, and what the heads of pretraining say."""
    mask, hidden, output = batch["attention_mask"].bool(), encoded(ours, batch), reference(**batch)
    assert close(hidden[mask], reference.base_model(**batch).last_hidden_state[mask])
    for name in ("prediction_logits", "logits"):
        if name in output and output[name].ndim == 3:
            assert close(mlm_logits(ours, hidden)[mask], output[name][mask])
        elif name in output and type(reference).__name__ == "ElectraForPreTraining":
            assert close(ours.heads["rtd"](hidden)[mask], output[name][mask])
    if ours.encoder.pooler is not None and "pooler_output" in output:
        assert close(ours.pool(hidden), output.pooler_output)
    for name, head in (("seq_relationship_logits", "nsp"), ("sop_logits", "sop")):
        if name in output:
            assert close(ours.heads[head](ours.pool(hidden)), output[name])


def test_a_head_of_deberta_as_transformers_trains_it(tmp_path):
    """Names of ``legacy``, which is its default; it computes what that of the releases does."""
    reference = case("DebertaV2ForMaskedLM", DEBERTA).save(tmp_path)
    assert reference.config.legacy
    assert_outputs_agree(load(tmp_path), reference, inputs(reference, 9))


@pytest.mark.parametrize(("groups", "kind"), [(1, "all"), (3, "groups"), (6, "none")])
def test_albert_groups_become_a_sharing_scheme(groups, kind, tmp_path):
    case("AlbertModel", hf_models.DEEP, embedding_size=8, num_hidden_groups=groups).save(tmp_path)
    assert import_model(tmp_path).program.settings["share"].value.kind == kind


COUNTED = [
    case("RobertaModel", SMALL, type_vocab_size=1),
    case("RobertaModel", SMALL, type_vocab_size=1, pad_token_id=3),
    case("CamembertModel", SMALL, type_vocab_size=1),
    case("MPNetModel", MPNET),
]


@pytest.mark.parametrize("chosen", COUNTED, ids=str)
def test_padding_tokens_within_a_text_have_no_position(chosen, tmp_path):
    """The padding id of the configuration counts, whatever that of the tokenizer."""
    reference = chosen.save(tmp_path / "in")
    pad = reference.config.pad_token_id
    ids_bs = torch.tensor([[5, 6, pad, 7, 8, pad, pad, 9], [pad, 6, 7, 8, 9, 10, 11, pad]])
    model = load(tmp_path / "in")
    with torch.no_grad():
        wanted = reference(ids_bs, torch.ones_like(ids_bs)).last_hidden_state
        ours = model.encode(ids_bs)
        row = torch.cat([ids_bs[0], ids_bs[1]])[None]
        packed = model.encode(row, sequence_ids=torch.arange(16)[None] // 8)
    assert close(ours, wanted)
    assert close(packed[0], wanted.flatten(0, 1))
    imported = import_model(tmp_path / "in")
    export_model(imported.resolved, imported.tensors, Wordless(0), tmp_path / "out", strict=True)
    assert config_of(tmp_path / "out")["pad_token_id"] == pad


def test_the_older_spelling_of_modernbert_is_read(tmp_path):
    case("ModernBertModel", MODERN, local_attention=8).save(tmp_path)
    wanted = import_model(tmp_path).resolved.encoder
    older: dict[str, Any] = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0}
    older |= dict.fromkeys(("layer_types", "rope_parameters"))
    respell(tmp_path, **older, local_rope_theta=10000.0)
    assert import_model(tmp_path).resolved.encoder == wanted
    assert wanted.attention == LocalAttention(window=8, global_every=3, bias=False)
    assert wanted.positions == RotaryPositions(theta=160_000.0, local_theta=10_000.0)
    respell(tmp_path, global_attn_every_n_layers=2, local_rope_theta=None)
    other = import_model(tmp_path).resolved.encoder
    assert other.attention == LocalAttention(window=8, global_every=2, bias=False)
    assert other.positions == RotaryPositions(theta=160_000.0, local_theta=160_000.0)


NEO = {
    "model_type": "neobert", "architectures": ["NeoBERTLMHead"], "vocab_size": 97,
    "auto_map": {"AutoModel": "model.NeoBERT"}, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 3, "intermediate_size": 30, "norm_eps": 1e-5, "max_length": 64,
    "dim_head": 8, "pad_token_id": 0, "decoder_init_range": 0.02, "embedding_init_range": 0.02,
}  # fmt: skip
WIDE = 24  # 2/3 of 30 is 20, and the next multiple of 8


def neo_tensors() -> dict[str, torch.Tensor]:
    """Weights by the names of NeoBERT's files."""
    shapes = {"model.encoder.weight": (97, 24), "model.layer_norm.weight": (24,)}
    shapes |= {"decoder.weight": (97, 24), "decoder.bias": (97,)}
    for n in range(2):
        layer = f"model.transformer_encoder.{n}"
        shapes |= {f"{layer}.qkv.weight": (72, 24), f"{layer}.wo.weight": (24, 24)}
        shapes |= {f"{layer}.ffn.w12.weight": (2 * WIDE, 24), f"{layer}.ffn.w3.weight": (24, WIDE)}
        shapes |= {f"{layer}.{norm}_norm.weight": (24,) for norm in ("attention", "ffn")}
    generator = torch.Generator().manual_seed(6)
    return {n: 0.4 * torch.randn(shape, generator=generator) for n, shape in shapes.items()}


def turned(x_bsnd: torch.Tensor) -> torch.Tensor:
    """Neighbours 2i and 2i + 1 as complex numbers, turned by their positions."""
    rates_d = 10_000.0 ** (-torch.arange(0, 8, 2) / 8)
    angles_sd = torch.arange(x_bsnd.shape[1])[:, None] * rates_d
    pairs = torch.view_as_complex(x_bsnd.unflatten(-1, (-1, 2)).contiguous())
    by = torch.polar(torch.ones_like(angles_sd), angles_sd)[:, None]
    return torch.view_as_real(pairs * by).flatten(-2)


def neo_states(w: dict[str, torch.Tensor], ids_bs: torch.Tensor) -> torch.Tensor:
    """NeoBERT's states by its formulas, rows unpadded."""
    x = F.embedding(ids_bs, w["model.encoder.weight"])
    for n in range(2):
        layer = f"model.transformer_encoder.{n}"
        read = F.rms_norm(x, (24,), w[f"{layer}.attention_norm.weight"], 1e-5)
        q, k, v = F.linear(read, w[f"{layer}.qkv.weight"]).unflatten(-1, (3, 24)).chunk(3, dim=-1)
        heads = [each.transpose(1, 2) for each in (turned(q), turned(k), v)]
        seen = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + F.linear(seen, w[f"{layer}.wo.weight"])
        read = F.rms_norm(x, (24,), w[f"{layer}.ffn_norm.weight"], 1e-5)
        gate, inner = F.linear(read, w[f"{layer}.ffn.w12.weight"]).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * inner, w[f"{layer}.ffn.w3.weight"])
    return F.rms_norm(x, (24,), w["model.layer_norm.weight"], 1e-5)


def test_a_neobert_folder_is_read_without_its_code(tmp_path):
    w = neo_tensors()
    save_file(w, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(NEO))
    (tmp_path / "model.py").write_text("raise SystemExit('this is never run')\n")
    imported, ours = import_model(tmp_path), load(tmp_path)
    assert "only the weights were read" in imported.notes[0]
    ids_bs = torch.randint(5, 97, (1, 40), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        states = ours.encode(ids_bs, None, torch.ones_like(ids_bs, dtype=torch.bool))
        torch.testing.assert_close(states, neo_states(w, ids_bs), atol=1e-4, rtol=1e-4)
    assert torch.equal(imported.tensors["heads.mlm.weight"], w["decoder.weight"])


def test_a_classifier_begins_with_the_layers_of_the_masked_lm_head(tmp_path):
    case("ModernBertForMaskedLM", MODERN, local_attention=8).save(tmp_path)
    reference = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path)
    task = 'task=classify("a.tsv", labels=[x, y], examples=9)'
    source = source_of(bertc.resolve(f"init='{tmp_path}' vocab=wordpiece(97) {task}"))
    note = "the pooler starts as its masked-LM head up to the table"
    assert any(note in line for line in source.lines())
    of_pooler = {"weight": reference.head.dense.weight, "norm.weight": reference.head.norm.weight}
    for name, weight in of_pooler.items():
        ours = source.tensors[source.places.copies[f"encoder.pooler.{name}"]]
        assert torch.equal(ours, weight), name
    other = source_of(bertc.resolve(f"init='{tmp_path}' vocab=wordpiece(97) {task} pooler=true"))
    assert "encoder.pooler.weight" not in other.places.copies


XLNETS = [
    case("XLNetLMHeadModel", hf_models.XLNET, vocab_size=1000),
    case("XLNetLMHeadModel", hf_models.XLNET, vocab_size=1000, n_head=2, n_layer=2, clamp_len=9),
]
ROWS, SEQ, MEMORY = 4, 24, 7


def asked_of(
    folder: Path, chosen: hf_models.Case
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
    # As data_utils.py has it: 1 where token i does not see token j.
    hidden = order.rank[:, None, :] >= order.visible_below[:, :, None]
    batch = {
        "input_ids": reading.token_ids, "token_type_ids": segments, "perm_mask": hidden.float(),
        "target_mapping": F.one_hot(order.target_positions, SEQ).float(),
    }  # fmt: skip
    return reference, ours, EncoderInputs(reading.token_ids, segments, permutation=order), batch


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("remembered", [0, MEMORY])
@pytest.mark.parametrize("chosen", XLNETS, ids=str)
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
@pytest.mark.parametrize("chosen", XLNETS, ids=str)
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
    found = after.states.transpose(1, 2)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)
