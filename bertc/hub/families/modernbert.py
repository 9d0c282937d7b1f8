"""ModernBERT's Hugging Face layout, also Ettin's and mmBERT's: pre-norm, rotary, local windows."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertc.hub.families import bert, config, family, rotary_like
from bertc.hub.families.family import ANSWERS, TaskClass, hf_class
from bertc.hub.families.rotary_like import GLOBAL, GateActivation, LayerKind
from bertc.ir.base import Probability, TruncatedNormal, Width
from bertc.ir.network import layer, norm
from bertc.ir.network.attention import FullAttention, LocalAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import TransformHead
from bertc.ir.network.positions import Theta
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import ByteBpe


class HfModernBert(rotary_like.HfGated):
    """ModernBertConfig, under the names of BertConfig, in today's spelling and in that of 2024."""

    spelling = {
        "hidden_activation": "hidden_act",
        "norm_eps": "layer_norm_eps",
        "attention_dropout": "attention_probs_dropout_prob",
        "embedding_dropout": "hidden_dropout_prob",
    }
    missing = frozenset({"type_vocab_size", *spelling.values()})
    of_training = ("attention_dropout", "embedding_dropout")
    # They change how a result is computed or returned, not the result.
    ignored = frozenset(
        {"deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index"}
    )
    only = {
        "decoder_bias": config.Single(True, "scores have no bias"),
        "rope_scaling": config.Single(None, "angles grow otherwise with positions"),
        "head_dim": config.Single(None, "heads do not fill the hidden width"),
        "sliding_window": config.Single(None, "windows are twice as wide"),
    }

    model_type: Literal["modernbert"] = "modernbert"
    vocab_size: config.VocabularySize = 50_368
    num_hidden_layers: config.Layers = 22
    num_attention_heads: Heads = 12
    intermediate_size: Width = 1152
    hidden_act: GateActivation = "gelu"
    mlp_dropout: Probability = 0.0
    max_position_embeddings: Width = 8192
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-5
    pad_token_id: config.PadId | None = 50_283
    norm_bias: bool = False
    classifier_bias: bool = False
    classifier_activation: GateActivation = "gelu"
    classifier_pooling: Literal["cls", "mean"] = "cls"
    initializer_cutoff_factor: Annotated[float, Field(gt=0, le=10)] = 2.0
    local_attention: Annotated[int, Field(ge=2, le=1_000_000)] = 128
    layer_types: list[LayerKind] | None = None
    global_attn_every_n_layers: config.Layers = 3
    rope_parameters: rotary_like.Ropes | None = rotary_like.UNSCALED
    global_rope_theta: Theta = 160_000.0
    local_rope_theta: Theta | None = 10_000.0

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        in_head, in_gate = self.classifier_activation, self.hidden_act
        if config.MEANING[in_head] != config.MEANING[in_gate]:
            message = f"classifier_activation = {in_head}, hidden_activation = {in_gate}"
            raise ValueError(message, "bertc has one activation for gates and heads")
        return self

    def _attention(self) -> FullAttention | LocalAttention:
        """Its pattern of layers, by a number if one gives it, else written out."""
        depth, period = self.num_hidden_layers, self.global_attn_every_n_layers
        global_layers = tuple(range(0, depth, period))
        if self.layer_types:
            global_layers = tuple(n for n, kind in enumerate(self.layer_types) if kind == GLOBAL)
        if len(global_layers) == depth:
            return FullAttention(bias=self.attention_bias)
        steps = (n for n in range(1, depth + 1) if tuple(range(0, depth, n)) == global_layers)
        step = next(steps, 0)
        return LocalAttention(
            window=self.local_attention, global_every=step,
            global_layers=() if step else global_layers, bias=self.attention_bias,
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        # ModernBERT's first configurations have null where both are the same.
        bases = self.global_rope_theta, self.local_rope_theta
        std, cut, eps = self.initializer_range, self.initializer_cutoff_factor, self.layer_norm_eps
        return super().settings() | {
            "norm": norm.PreNorm(eps=eps, bias=self.norm_bias, embeddings=True, first=False),
            "positions": rotary_like.turned_by_kind(self.rope_parameters, *bases),
            "attention": self._attention(),
            "dropout": layer.Dropout(hidden=0, attention=0, ffn=self.mlp_dropout),
            "initializer": TruncatedNormal(std=std, cut=cut, depth_scaled=True),
            "head": TransformHead(bias=self.classifier_bias),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: config.Tokens) -> dict[str, Any]:
        attention, head, init = encoder.attention, encoder.head, encoder.initializer
        known = super().values(encoder, tokens)
        return {
            **known, **rotary_like.by_kind(encoder), "classifier_activation": known["hidden_act"],
            "classifier_bias": isinstance(head, TransformHead) and head.bias,
            "norm_bias": getattr(encoder.norm, "bias", True), "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0, "mlp_dropout": encoder.dropout.ffn,
            **({"local_attention": attention.window} if attention.kind == "local" else {}),
            "initializer_cutoff_factor": init.cut if isinstance(init, TruncatedNormal) else 2.0,
            "cls_token_id": known["bos_token_id"] if tokens.cls is None else tokens.cls,
            "sep_token_id": known["eos_token_id"] if tokens.sep is None else tokens.sep,
        }  # fmt: skip


def _claims(candidate: family.Candidate) -> bool:
    """True for rotary positions and layer norms that are not after each part alone."""
    placed = candidate.encoder.norm
    return candidate.turns and placed.kind != "post" and placed.function == "layer"


MODERNBERT = family.Family(
    title="ModernBERT",
    config=HfModernBert,
    prefix="model",
    names={
        "encoder.embeddings.token": "embeddings.tok_embeddings",
        "encoder.embeddings.norm": "embeddings.norm",
        **bert.attention_keys("layers.{n}.attn.Wqkv"),
        "encoder.attention.{n}.output": "layers.{n}.attn.Wo",
        "encoder.attention.{n}.norm": "layers.{n}.attn_norm",
        "encoder.ffn.{n}.gate": "layers.{n}.mlp.Wi",
        "encoder.ffn.{n}.inner": "layers.{n}.mlp.Wi",
        "encoder.ffn.{n}.outer": "layers.{n}.mlp.Wo",
        "encoder.ffn.{n}.norm": "layers.{n}.mlp_norm",
        "encoder.norm": "final_norm",
        **bert.mlm_keys("head", "decoder", "norm"),
    },
    copies={"decoder.weight": "embeddings.tok_embeddings.weight"},
    classes=(hf_class("ModernBertForMaskedLM", "mlm"), hf_class("ModernBertModel")),
    tasks=family.TaskHeads(
        tuple(  # states of tokens go through the layers before the scores too
            TaskClass(f"ModernBert{part}", "classifier", "read", "head.dense", own_norm="head.norm")
            for part in ANSWERS
        ),
        default=0.0,
    ),
    claims=_claims,
    recipe="modernbert",
    vocabulary=ByteBpe,
    poolers=family.poolers("classifier_pooling", {"transform": "cls", "mean-transform": "mean"}),
)
