"""EuroBERT's Hugging Face layout: Llama's blocks that attend in both directions."""

from typing import Any, Literal, Self

from pydantic import model_validator

from bertc.hub.families import bert_like, rotary_like
from bertc.hub.families.config import ACTIVATIONS, NO_CLASS, ROPE, HfConfig, VocabularySize
from bertc.hub.families.family import Candidate, Family, TaskClass, TaskHeads, Tokens, hf_class
from bertc.hub.families.rotary_like import GateActivation, PadId, Rope
from bertc.ir.base import Probability, Width
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import LinearHead
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import Epsilon, PreNorm
from bertc.ir.network.positions import RotaryPositions, Theta
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import ByteBpe


class HfEuroBert(HfConfig):
    """EuroBertConfig, under the names of BertConfig."""

    spelling = {
        "rms_norm_eps": "layer_norm_eps",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    missing = frozenset(
        {"type_vocab_size", "hidden_dropout_prob", "layer_norm_eps", "attention_probs_dropout_prob"}
    )
    ignored = {"pretraining_tp": "about processes in training"}
    copied = frozenset({"max_position_embeddings", "classifier_pooling"})
    only = ROPE

    model_type: Literal["eurobert"] = "eurobert"
    vocab_size: VocabularySize = 128_256
    num_key_value_heads: Heads | None = None
    head_dim: Width | None = None
    hidden_act: GateActivation = "silu"
    hidden_dropout_prob: Literal[0] = 0
    attention_probs_dropout_prob: Probability = 0.0
    max_position_embeddings: Width = 8192
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: Epsilon = 1e-5
    pad_token_id: PadId | None = 128_001
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    rope_parameters: Rope | None = None
    rope_theta: Theta = 10_000.0
    classifier_pooling: Literal["bos", "mean", "late"] = "late"

    @model_validator(mode="after")
    def _keys_divide(self) -> Self:
        if self.num_attention_heads % self.key_heads:
            raise ValueError(
                f"num_key_value_heads = {self.key_heads} does not divide num_attention_heads = "
                f"{self.num_attention_heads}",
                NO_CLASS,
            )
        return self

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def theta(self) -> float:
        """The base of its angles."""
        return (self.rope_parameters and self.rope_parameters.rope_theta) or self.rope_theta


def _claims(candidate: Candidate) -> bool:
    """True for rotary positions and RMS norms."""
    encoder = candidate.encoder
    return encoder.positions.kind == "rotary" and encoder.norm.function == "rms"


def _settings(config: HfEuroBert) -> dict[str, Any]:
    same = config.key_heads == config.num_attention_heads
    fills = config.head_dim in (None, config.hidden_size // config.num_attention_heads)
    return {
        **bert_like.settings_of(config),
        **({} if fills else {"head_dim": config.head_dim}),
        "activation": rotary_like.gated_part(config.hidden_act, config.mlp_bias),
        "norm": PreNorm(eps=config.layer_norm_eps, function="rms"),
        "positions": RotaryPositions(theta=config.theta),
        "attention": FullAttention(
            kv_heads=0 if same else config.key_heads, bias=config.attention_bias
        ),
        "dropout": Dropout(hidden=0, attention=config.attention_probs_dropout_prob),
        "head": LinearHead(bias=config.mlp_bias, tied=config.tie_word_embeddings),
    }


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    """The settings by EuroBertConfig's names."""
    attention, first = rotary_like.attention_of(encoder), encoder.layers[0]
    head = encoder.head
    return {
        "hidden_size": encoder.hidden,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": first.heads,
        "num_key_value_heads": attention.key_heads(first.heads),
        "head_dim": first.head_dim,
        "intermediate_size": first.ffn,
        "hidden_act": ACTIVATIONS[rotary_like.gate(encoder)],
        "attention_dropout": encoder.dropout.attention,
        "attention_bias": attention.bias,
        "mlp_bias": rotary_like.has_biases(encoder),
        "rms_norm_eps": encoder.norm.eps,
        "rope_parameters": rotary_like.rope(rotary_like.theta(encoder)),
        "initializer_range": bert_like.init_std(encoder),
        "pad_token_id": tokens.pad,
        **bert_like.ends(tokens),
        **bert_like.ENDING,
        "tie_word_embeddings": not isinstance(head, LinearHead) or head.tied,
    }


EUROBERT = Family(
    model_type="eurobert",
    title="EuroBERT",
    config=HfEuroBert,
    prefix="model",
    names={
        "encoder.embeddings.token": "embed_tokens",
        "encoder.attention.{n}.query": "layers.{n}.self_attn.q_proj",
        "encoder.attention.{n}.key": "layers.{n}.self_attn.k_proj",
        "encoder.attention.{n}.value": "layers.{n}.self_attn.v_proj",
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
        (
            TaskClass(
                "EuroBertForSequenceClassification",
                ("labels", "score"),
                "classifier",
                "read",
                own_pooler="dense",
            ),
            TaskClass("EuroBertForTokenClassification", ("tags",), "classifier", "unread"),
        ),
        dropout="classifier_dropout",
        default=0.0,
        otherwise="EuroBERT has no class for choices and spans",
    ),
    claims=_claims,
    settings=_settings,
    config_of=_config_of,
    recipe="eurobert",
    vocabulary=ByteBpe,
    # The mean of logits is that of the states before their linear layer.
    poolers={
        "gelu-mean": {"classifier_pooling": "late"},
        "mean-gelu": {"classifier_pooling": "mean"},
        "gelu": {"classifier_pooling": "bos"},
    },
)
