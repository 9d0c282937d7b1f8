"""Models of transformers with random weights, and where they are saved."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

SMALL = {
    "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3,
    "intermediate_size": 40, "max_position_embeddings": 32,
}  # fmt: skip
DEEP = {**SMALL, "num_hidden_layers": 6, "hidden_size": 32, "num_attention_heads": 2}
WIDE = {**SMALL, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 17}
WIDE |= {"num_attention_heads": 8, "type_vocab_size": 3, "layer_norm_eps": 1e-5}
XLM = {"vocab_size": 97, "emb_dim": 24, "n_layers": 3, "n_heads": 3, "max_position_embeddings": 32}
DISTIL = {
    "vocab_size": 97, "dim": 24, "n_layers": 3, "n_heads": 3, "hidden_dim": 40,
    "max_position_embeddings": 32,
}  # fmt: skip
XLNET = {"vocab_size": 97, "d_model": 24, "n_layer": 3, "n_head": 3, "d_inner": 40}

MODERN = {
    "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 3,
    "intermediate_size": 40, "pad_token_id": 0,
}  # fmt: skip
MPNET = {**SMALL, "max_position_embeddings": 34}
DEBERTA = {
    **SMALL, "relative_attention": True, "position_buckets": 8, "pos_att_type": "p2c|c2p",
    "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False,
}  # fmt: skip
ESM = {
    "vocab_size": 33, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 40, "pad_token_id": 1, "mask_token_id": 32, "token_dropout": True,
}  # fmt: skip
ROTARY_ESM = {**ESM, "position_embedding_type": "rotary", "layer_norm_eps": 1e-5}
ESMC = {n: x for n, x in ESM.items() if n != "token_dropout"} | {"vocab_size": 64}
DECODER = {**MODERN, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8}
ULTRA = {**MODERN, "num_key_value_heads": 1, "sliding_window": 3, "prediction_head_size": 20}
ROPE = {"rope_theta": 30.0, "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {**ROPE, "rope_type": "llama3", "low_freq_factor": 0.5, "high_freq_factor": 2.0}
YARN = {**ROPE, "rope_type": "yarn", "beta_fast": 3.0}
GEMMA = {**DECODER, "query_pre_attn_scalar": 8, "sliding_window": 5}


@dataclass(frozen=True)
class Case:
    """A class of transformers and settings of its configuration."""

    cls: str
    settings: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.cls}-{self.settings[1][1]}-{self.settings[2][1]}"

    def model(self, seed: int = 1) -> Any:
        """The model, every weight (biases and norms too) drawn at random."""
        cls = getattr(transformers, self.cls)
        model = cls(cls.config_class(**dict(self.settings))).eval()
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
                if self.cls.startswith("Gemma"):  # scales of norms are stored less 1
                    parameter.mul_(4096).round_().div_(4096)
        return model

    def save(self, folder: Path, seed: int = 1) -> Any:
        """The same, saved in a folder."""
        model = self.model(seed)
        model.save_pretrained(folder)
        return model


def config_of(folder: Path) -> dict[str, Any]:
    """The settings of its config.json."""
    return dict(json.loads((folder / "config.json").read_text()))


def respell(folder: Path, **settings: Any) -> Path:
    """Change settings of a config.json, and return its path."""
    (folder / "config.json").write_text(json.dumps({**config_of(folder), **settings}))
    return folder / "config.json"


def case(cls: str, base: dict[str, Any], **more: Any) -> Case:
    """Settings in a row."""
    return Case(cls, tuple({**base, **more}.items()))


CASES = [
    case("BertForPreTraining", SMALL),
    case("BertForPreTraining", WIDE, hidden_act="gelu_new"),
    case("BertForMaskedLM", SMALL),
    case("BertForMaskedLM", DEEP, hidden_act="relu"),
    case("BertForNextSentencePrediction", SMALL),
    case("BertModel", SMALL),
    case("BertModel", WIDE, hidden_act="silu"),
    case("BertModel", SMALL | {"vocab_size": 1200}, pad_token_id=1199),
    case("RobertaForMaskedLM", SMALL, type_vocab_size=1),
    case("RobertaForMaskedLM", WIDE, pad_token_id=0),
    case("RobertaModel", DEEP, type_vocab_size=1, max_position_embeddings=34),
    case("XLMRobertaForMaskedLM", SMALL, type_vocab_size=1),
    case("XLMRobertaModel", DEEP, type_vocab_size=1, max_position_embeddings=34),
    case("CamembertForMaskedLM", SMALL, type_vocab_size=1),
    case("CamembertModel", WIDE, type_vocab_size=1),
    case("AlbertForPreTraining", SMALL, embedding_size=16),
    case("AlbertForPreTraining", DEEP, embedding_size=8, num_hidden_groups=3),
    case("AlbertForPreTraining", WIDE, embedding_size=80, num_hidden_groups=2),
    case("AlbertForMaskedLM", DEEP, embedding_size=16, num_hidden_groups=6),
    case("AlbertForMaskedLM", SMALL | {"num_hidden_layers": 18}, embedding_size=16,
         num_hidden_groups=14),
    case("AlbertModel", DEEP, embedding_size=16, num_hidden_groups=4),
    case("XLMWithLMHeadModel", XLM, n_langs=3),
    case("XLMWithLMHeadModel", XLM, gelu_activation=False, layer_norm_eps=1e-5),
    case("XLMModel", XLM, n_langs=2),
    case("XLNetLMHeadModel", XLNET),
    case("XLNetLMHeadModel", XLNET, d_model=32, n_head=4, ff_activation="gelu_new", clamp_len=5),
    case("XLNetModel", XLNET, n_layer=1, layer_norm_eps=1e-5, ff_activation="relu"),
    case("XLMModel", XLM, n_langs=2, use_lang_emb=False, pad_token_id=0),
    case("ElectraForPreTraining", SMALL, embedding_size=16),
    case("ElectraForPreTraining", WIDE, embedding_size=64, hidden_act="gelu_new"),
    case("ElectraForMaskedLM", SMALL, embedding_size=24),
    case("ElectraForMaskedLM", DEEP, embedding_size=48),
    case("ElectraModel", DEEP, embedding_size=8, hidden_act="relu"),
    case("RobertaModel", DEEP, type_vocab_size=1, hidden_act="relu"),
    case("DistilBertForMaskedLM", DISTIL),
    case("DistilBertForMaskedLM", DISTIL, dim=32, n_heads=2, activation="relu"),
    case("DistilBertModel", DISTIL, n_layers=1, hidden_dim=17),
    case("ModernBertForMaskedLM", MODERN, local_attention=8),
    case("ModernBertForMaskedLM", MODERN, local_attention=6, norm_bias=True, attention_bias=True,
         mlp_bias=True, classifier_bias=True, norm_eps=1e-4, initializer_cutoff_factor=3.0,
         hidden_activation="silu", classifier_activation="silu",
         layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
         rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
    case("ModernBertModel", MODERN, hidden_size=32, num_attention_heads=2,
         layer_types=["full_attention"] * 4),
    case("EuroBertForMaskedLM", MODERN, num_attention_heads=6, num_key_value_heads=2),
    case("EuroBertForMaskedLM", MODERN, mlp_bias=True, attention_bias=True, head_dim=12,
         tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
    case("EuroBertModel", MODERN, num_hidden_layers=1, rms_norm_eps=1e-4),
    case("UltrabertForMaskedLM", ULTRA),
    case("UltrabertForMaskedLM", ULTRA, num_attention_heads=6, num_key_value_heads=2,
         mlp_bias=True, attention_bias=True, head_dim=12, tie_word_embeddings=True,
         hidden_act="gelu", layer_types=["full_attention", "sliding_attention"] * 2,
         rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
    case("UltrabertModel", ULTRA, hidden_size=32, num_attention_heads=2,
         layer_types=["full_attention"] * 4),
    case("NomicBertForMaskedLM", MODERN),
    case("NomicBertForMaskedLM", MODERN, type_vocab_size=1, hidden_act="gelu", head_dim=6,
         rope_parameters={"rope_type": "default", "rope_theta": 20.0}),
    case("NomicBertModel", MODERN, num_hidden_layers=1, hidden_size=32, num_attention_heads=2),
    case("MPNetForMaskedLM", MPNET),
    case("MPNetModel", MPNET, hidden_size=32, num_attention_heads=2,
         hidden_act="relu"),
    case("DebertaV2ForMaskedLM", DEBERTA, legacy=False),
    case("DebertaV2Model", DEBERTA, hidden_size=32, num_attention_heads=2, hidden_act="relu",
         max_relative_positions=20, position_buckets=6, pos_att_type=["c2p", "p2c"]),
    case("EsmForMaskedLM", ROTARY_ESM),
    case("EsmForMaskedLM", ESM, max_position_embeddings=34, emb_layer_norm_before=True),
    case("EsmForMaskedLM", ESM, tie_word_embeddings=False, token_dropout=False, pad_token_id=4),
    case("EsmModel", ROTARY_ESM, token_dropout=False, rope_theta=500.0, emb_layer_norm_before=True),
    case("EsmcForMaskedLM", ESMC),
    case("EsmcForMaskedLM", ESMC, num_hidden_layers=3, attention_bias=True, mlp_bias=True,
         rope_parameters={"rope_type": "default", "rope_theta": 20.0}),
    case("EsmcModel", ESMC, hidden_size=32, num_attention_heads=2),
    case("Qwen3ForCausalLM", DECODER),
    case("Qwen3ForCausalLM", DECODER, attention_bias=True, tie_word_embeddings=True,
         num_key_value_heads=6, rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
    case("Qwen3ForCausalLM", DECODER, num_hidden_layers=2, is_causal=False),
    case("Qwen3Model", DECODER, num_hidden_layers=1, hidden_size=32, num_attention_heads=4),
    case("LlamaForCausalLM", DECODER),
    case("LlamaForCausalLM", DECODER, rope_parameters=LLAMA3),
    case("Qwen3ForCausalLM", DECODER, rope_parameters={**YARN, "attention_factor": 1.5}),
    case("MistralForCausalLM", DECODER, rope_parameters=YARN),
    case("EuroBertModel", MODERN, rope_parameters={"rope_type": "linear", "factor": 3.0}),
    case("LlamaForCausalLM", DECODER, attention_bias=True, mlp_bias=True, is_causal=False),
    case("LlamaModel", DECODER, num_hidden_layers=2, rms_norm_eps=1e-4),
    case("MistralForCausalLM", DECODER, sliding_window=5),
    case("MistralForCausalLM", DECODER, sliding_window=None, tie_word_embeddings=True),
    case("MistralModel", DECODER, sliding_window=2, num_hidden_layers=1),
    case("Gemma3ForCausalLM", GEMMA, num_hidden_layers=7),
    case("Gemma3ForCausalLM", GEMMA, use_bidirectional_attention=True, sliding_window=8,
         tie_word_embeddings=False, layer_types=["full_attention", "sliding_attention"] * 2),
    case("Gemma3ForCausalLM", GEMMA, layer_types=["full_attention"] * 4, attention_bias=True,
         hidden_activation="silu", num_key_value_heads=6),
]  # fmt: skip
