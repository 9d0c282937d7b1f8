"""EuroBERT's Hugging Face layout: Llama's blocks that attend in both directions."""

from typing import Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import ROPE, PadId, Tokens, VocabularySize
from bertc.hub.families.family import Family, TaskHeads, hf_class, poolers
from bertc.hub.families.rotary_like import HfTurned
from bertc.ir.base import Width
from bertc.ir.network import layer, norm
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.attention_node import ContentAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import LinearHead
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import ByteBpe


class HfEuroBert(HfTurned):
    """EuroBertConfig, under the names of BertConfig."""

    spelling = {
        "rms_norm_eps": "layer_norm_eps",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    missing = frozenset({"type_vocab_size", "hidden_dropout_prob", *spelling.values()})
    ignored = frozenset({"pretraining_tp"})
    only = ROPE

    model_type: Literal["eurobert"] = "eurobert"
    vocab_size: VocabularySize = 128_256
    num_key_value_heads: Heads | None = None
    hidden_dropout_prob: Literal[0] = 0
    max_position_embeddings: Width = 8192
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-5
    pad_token_id: PadId | None = 128_001
    tie_word_embeddings: bool = False
    classifier_pooling: Literal["bos", "mean", "late"] = "late"

    def settings(self) -> dict[str, Any]:
        key_heads = self.num_key_value_heads or self.num_attention_heads
        fewer = 0 if key_heads == self.num_attention_heads else key_heads
        return super().settings() | {
            "norm": norm.PreNorm(eps=self.layer_norm_eps, function="rms"),
            "attention": FullAttention(kv_heads=fewer, bias=self.attention_bias),
            "dropout": layer.Dropout(hidden=0, attention=self.attention_probs_dropout_prob),
            "head": LinearHead(bias=self.mlp_bias, tied=self.tie_word_embeddings),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention, head, heads = encoder.attention, encoder.head, encoder.layers[0].heads
        fewer = attention.key_heads(heads) if isinstance(attention, ContentAttention) else heads
        return {
            **super().values(encoder, tokens),
            "num_key_value_heads": fewer,
            "tie_word_embeddings": not isinstance(head, LinearHead) or head.tied,
        }


EUROBERT = Family(
    title="EuroBERT",
    config=HfEuroBert,
    prefix="model",
    names={
        "encoder.embeddings.token": "embed_tokens",
        **bert.attention_keys("layers.{n}.self_attn.{letter}_proj"),
        "encoder.attention.{n}.output": "layers.{n}.self_attn.o_proj",
        "encoder.attention.{n}.norm": "layers.{n}.input_layernorm",
        "encoder.ffn.{n}.gate": "layers.{n}.mlp.gate_proj",
        "encoder.ffn.{n}.inner": "layers.{n}.mlp.up_proj",
        "encoder.ffn.{n}.outer": "layers.{n}.mlp.down_proj",
        "encoder.ffn.{n}.norm": "layers.{n}.post_attention_layernorm",
        "encoder.norm": "norm",
        "heads.mlm": "lm_head",
    },
    copies={"lm_head.weight": "embed_tokens.weight"},
    classes=(hf_class("EuroBertForMaskedLM", "mlm"), hf_class("EuroBertModel")),
    tasks=TaskHeads(
        (bert.pooled_classes("EuroBert", "dense")[0], bert.token_classes("EuroBert")[0]),
        dropout="classifier_dropout",
        default=0.0,
        otherwise="EuroBERT has no class for choices and spans",
    ),
    claims=lambda c: c.encoder.positions.kind == "rotary" and c.encoder.norm.function == "rms",
    recipe="eurobert",
    vocabulary=ByteBpe,
    # The mean of logits is that of the states before their linear layer.
    poolers=poolers(
        "classifier_pooling", {"gelu-mean": "late", "mean-gelu": "mean", "gelu": "bos"}
    ),
)
