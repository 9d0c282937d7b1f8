"""EuroBERT's Hugging Face layout: Llama's blocks that attend in both directions."""

from typing import Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import PadId, Tokens, VocabularySize
from bertc.hub.families.family import Family, TaskHeads, hf_class, poolers
from bertc.hub.families.rotary_like import HfGrouped
from bertc.ir.base import Width
from bertc.ir.network import norm
from bertc.ir.network.encoder import Encoder
from bertc.ir.vocabulary import ByteBpe


class HfEuroBert(HfGrouped):
    """EuroBertConfig, under the names of BertConfig."""

    ignored = frozenset({"pretraining_tp"})

    model_type: Literal["eurobert"] = "eurobert"
    vocab_size: VocabularySize = 128_256
    max_position_embeddings: Width = 8192
    layer_norm_eps: norm.Epsilon = 1e-5
    pad_token_id: PadId | None = 128_001
    classifier_pooling: Literal["bos", "mean", "late"] = "late"

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        return {**super().values(encoder, tokens), "mask_token_id": tokens.mask}


BODY = {
    "encoder.embeddings.token": "embed_tokens",
    **bert.attention_keys("layers.{n}.self_attn.{letter}_proj"),
    "encoder.attention.{n}.output": "layers.{n}.self_attn.o_proj",
    "encoder.attention.{n}.norm": "layers.{n}.input_layernorm",
    "encoder.ffn.{n}.gate": "layers.{n}.mlp.gate_proj",
    "encoder.ffn.{n}.inner": "layers.{n}.mlp.up_proj",
    "encoder.ffn.{n}.outer": "layers.{n}.mlp.down_proj",
    "encoder.ffn.{n}.norm": "layers.{n}.post_attention_layernorm",
    "encoder.norm": "norm",
}
EUROBERT = Family(
    title="EuroBERT",
    config=HfEuroBert,
    prefix="model",
    names={**BODY, "heads.mlm": "lm_head"},
    copies={"lm_head.weight": "embed_tokens.weight"},
    classes=(hf_class("EuroBertForMaskedLM", "mlm"), hf_class("EuroBertModel")),
    tasks=TaskHeads(
        (bert.pooled_classes("EuroBert", "dense")[0], bert.token_classes("EuroBert")[0]),
        default=0.0,
        otherwise="EuroBERT has no class for choices and spans",
    ),
    claims=lambda c: c.turns and c.encoder.norm.function == "rms",
    recipe="eurobert",
    vocabulary=ByteBpe,
    # The mean of logits is that of the states before their linear layer.
    poolers=poolers(
        "classifier_pooling", {"gelu-mean": "late", "mean-gelu": "mean", "gelu": "bos"}
    ),
)
