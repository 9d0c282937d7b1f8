"""Layouts with rotary positions: spellings, poolers, and NeoBERT's folder of code."""

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

import bertc
from bertc.ir.network.attention import LocalAttention
from bertc.ir.network.positions import RotaryPositions
from bertc.run.beginning.init_from import source_of
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from tests.hub.hf_models import MODERN, case, respell

LOCAL = case("ModernBertModel", MODERN, local_attention=8)


def test_the_older_spelling_of_modernbert_is_read(tmp_path):
    LOCAL.save(tmp_path)
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
        qkv = F.linear(read, w[f"{layer}.qkv.weight"]).unflatten(-1, (3, 24))
        q, k, v = qkv.chunk(3, dim=-1)
        heads = [each.transpose(1, 2) for each in (turned(q), turned(k), v)]
        seen = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + F.linear(seen, w[f"{layer}.wo.weight"])
        read = F.rms_norm(x, (24,), w[f"{layer}.ffn_norm.weight"], 1e-5)
        gate, inner = F.linear(read, w[f"{layer}.ffn.w12.weight"]).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * inner, w[f"{layer}.ffn.w3.weight"])
    return F.rms_norm(x, (24,), w["model.layer_norm.weight"], 1e-5)


def neo_folder(folder: Path) -> dict[str, torch.Tensor]:
    tensors = neo_tensors()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(NEO))
    return tensors


def test_a_neobert_folder_is_read_without_its_code(tmp_path):
    w = neo_folder(tmp_path)
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
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path)
    task = 'task=classify("a.tsv", labels=[x, y], examples=9)'
    source = source_of(bertc.resolve(f"init='{tmp_path}' vocab=wordpiece(97) {task}"))
    assert source is not None
    told = "the pooler starts as its masked-LM head up to the table"
    assert any(told in line for line in source.lines())
    of_pooler = {"weight": theirs.head.dense.weight, "norm.weight": theirs.head.norm.weight}
    for name, weight in of_pooler.items():
        ours = source.tensors[source.places.copies[f"encoder.pooler.{name}"]]
        assert torch.equal(ours, weight), name
    other = source_of(bertc.resolve(f"init='{tmp_path}' vocab=wordpiece(97) {task} pooler=true"))
    assert other is not None
    assert "encoder.pooler.weight" not in other.places.copies
