"""NomicBERT's layout, with the keys of its files: BERT's with rotary positions and a gate."""

from typing import Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import ROPE, PadId, Single, Tokens, VocabularySize
from bertc.hub.families.family import Family, TaskHeads, hf_class
from bertc.hub.families.rotary_like import HfTurned
from bertc.ir.base import Width
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import Theta
from bertc.ir.vocabulary import WordPiece

GATES = {"swiglu": "silu", "geglu": "gelu"}


class HfNomicBert(HfTurned):
    """NomicBertConfig, whose names are BertConfig's, and its first names, which are GPT-2's."""

    spelling = {
        "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
        "n_inner": "intermediate_size", "activation_function": "hidden_act",
        "resid_pdrop": "hidden_dropout_prob", "attn_pdrop": "attention_probs_dropout_prob",
        "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps",
        "rotary_emb_base": "rope_theta",
    }  # fmt: skip
    # Where both are there, transformers reads today's names alone.
    older = frozenset(spelling)
    only = {
        **ROPE,
        **dict.fromkeys(
            ("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias"), Single(False, "maps have biases")
        ),
        "prenorm": Single(False, "norms come before each part"),
        "use_rms_norm": Single(False, "norms take no mean off"),
        "causal": Single(False, "tokens see earlier ones alone"),
        "parallel_block": Single(False, "attention and gate read the same states"),
        "rotary_emb_interleaved": Single(False, "pairs that turn are neighbours"),
        "rotary_emb_fraction": Single(1.0, "a part of a head turns"),
        "rotary_emb_scale_base": Single(None, "scores decay with distance"),
        "scale_attn_weights": Single(True, "scores are not divided"),
    }
    missing = frozenset({"attention_bias", "mlp_bias"})

    model_type: Literal["nomic_bert"] = "nomic_bert"
    vocab_size: VocabularySize = 30_528
    max_position_embeddings: Width = 2048
    pad_token_id: PadId = 0
    rope_theta: Theta = 1000.0

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        """An activation, where a file names its gate."""
        gate = name == "activation_function" and isinstance(value, str)
        return GATES.get(value, value) if gate else value

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        return super().values(encoder, tokens) | {"type_vocab_size": max(1, encoder.segments)}


NOMIC = Family(
    title="NomicBERT",
    config=HfNomicBert,
    prefix="nomic_bert",
    names={
        "encoder.embeddings.token": "embeddings.word_embeddings",
        "encoder.embeddings.segment": "embeddings.token_type_embeddings",
        "encoder.embeddings.norm": "emb_ln",
        **bert.attention_keys("encoder.layers.{n}.attn.Wqkv"),
        "encoder.attention.{n}.output": "encoder.layers.{n}.attn.out_proj",
        "encoder.attention.{n}.norm": "encoder.layers.{n}.norm1",
        "encoder.ffn.{n}.gate": "encoder.layers.{n}.mlp.fc12",
        "encoder.ffn.{n}.inner": "encoder.layers.{n}.mlp.fc11",
        "encoder.ffn.{n}.outer": "encoder.layers.{n}.mlp.fc2",
        "encoder.ffn.{n}.norm": "encoder.layers.{n}.norm2",
        **bert.POOLER,
        **bert.mlm_keys("cls.predictions.transform", "cls.predictions", "layer_norm"),
    },
    copies=bert.tied("cls.predictions"),
    classes=(hf_class("NomicBertForMaskedLM", "mlm"), hf_class("NomicBertModel")),
    tasks=TaskHeads(
        (bert.pooled_classes("NomicBert")[0], bert.token_classes("NomicBert")[0]),
        otherwise="NomicBERT has no class for choices and spans",
    ),
    claims=lambda c: c.turns and c.encoder.norm.kind == "post",
    recipe="nomic",
    vocabulary=WordPiece,
)
