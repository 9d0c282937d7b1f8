"""Gemma 3's layout of text, EmbeddingGemma's too: norms on both sides of parts, local layers."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertc.hub.families import config, decoders, rotary_like
from bertc.hub.families.config import PadId, Single, Tokens, VocabularySize
from bertc.hub.families.family import Reshape
from bertc.hub.families.rotary_like import GLOBAL, LOCAL, GateActivation, LayerKind
from bertc.ir.base import Width
from bertc.ir.network import norm
from bertc.ir.network.attention import LocalAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Glu
from bertc.ir.network.positions import RotaryPositions, Theta
from bertc.ir.network.table import WholeTable


class HfGemma3(decoders.HfDecoder):
    """Gemma3TextConfig; ``is_causal`` is the opposite of its ``use_bidirectional_attention``.

    Of tokens on both sides a window has ``sliding_window`` / 2 on each (modeling_gemma3.py).
    """

    spelling = {
        **decoders.HfDecoder.spelling,
        "hidden_activation": "hidden_act",
        "use_bidirectional_attention": "is_causal",
    }
    missing = decoders.HfDecoder.missing | {"mlp_bias", "hidden_act", "is_causal"}
    only = {
        "is_causal": Single(True, "use_bidirectional_attention says so"),
        **dict.fromkeys(
            ("final_logit_softcapping", "attn_logit_softcapping"), Single(None, "scores have a cap")
        ),
    }

    model_type: Literal["gemma3_text"] = "gemma3_text"
    vocab_size: VocabularySize = 262_208
    hidden_size: Width = 2304
    intermediate_size: Width = 9216
    num_hidden_layers: int = 26
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    head_dim: Width = 256
    hidden_act: GateActivation | Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"  # type: ignore[assignment]
    max_position_embeddings: Width = 131_072
    pad_token_id: PadId | None = 0
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: int = 256
    sliding_window: Annotated[int, Field(ge=2, le=500_000)] = 4096
    sliding_window_pattern: config.Layers = 6
    layer_types: list[LayerKind] | None = None
    rope_parameters: rotary_like.Ropes | None = rotary_like.UNSCALED  # type: ignore[assignment]
    rope_scaling: None = rotary_like.UNSCALED
    rope_theta: Theta = 1_000_000.0
    rope_local_base_freq: Theta = 10_000.0

    @model_validator(mode="after")
    def _divides_by_width(self) -> Self:
        if self.query_pre_attn_scalar != self.head_dim:
            message = f"query_pre_attn_scalar = {self.query_pre_attn_scalar}"
            raise ValueError(message, f"bertc divides scores by sqrt(head_dim) = {self.head_dim}")
        return self

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        return not value if name == "use_bidirectional_attention" else value

    def _attention(self, **how: Any) -> rotary_like.Content:
        period, layers = self.sliding_window_pattern, range(1, self.num_hidden_layers + 1)
        kinds = self.layer_types or [LOCAL if n % period else GLOBAL for n in layers]
        sides = self.sliding_window - 1 if self.is_causal else self.sliding_window // 2
        return rotary_like.windows_by_kind(kinds, sides, {**how, "norm": "rms"})

    def _positions(self) -> RotaryPositions:
        bases = self.rope_theta, self.rope_local_base_freq
        return rotary_like.turned_by_kind(self.rope_parameters, *bases)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "norm": norm.PreNorm(
                eps=self.layer_norm_eps, function="rms", after_attention=True, after_ffn=True
            ),
            "table": WholeTable(scaled=True),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention, width = encoder.attention, dict[str, int]()
        if isinstance(attention, LocalAttention):
            half = attention.window // 2
            width["sliding_window"] = half + 1 if encoder.causal else 2 * half
        gate = encoder.ffn.gate_activation if isinstance(encoder.ffn, Glu) else "gelu"
        return {
            **super().values(encoder, tokens), **rotary_like.by_kind(encoder), **width,
            "is_causal": not encoder.causal, "hidden_act": config.ACTIVATIONS[gate],
            "query_pre_attn_scalar": encoder.layers[0].head_dim,
        }  # fmt: skip


def _from_one(module: str) -> bool:
    """True for a norm, whose scale Gemma's files have less 1."""
    return module.rpartition(".weight")[0].endswith("norm")


GEMMA3 = replace(
    decoders.decoder(
        "Gemma3",
        HfGemma3,
        lambda c: c.turns and getattr(c.encoder.norm, "after_ffn", False),
        **decoders.QUERY_KEY,
        **{
            f"encoder.{part}.{{n}}.{ours}": f"layers.{{n}}.{theirs}_layernorm"
            for part, ours, theirs in (
                ("attention", "output_norm", "post_attention"),
                ("ffn", "norm", "pre_feedforward"),
                ("ffn", "output_norm", "post_feedforward"),
            )
        },
    ),
    classes=decoders.decoder_classes("Gemma3", "Text"),
    tasks=decoders.decoder_tasks("Gemma3Text", classes=1),
    obstacle=partial(decoders.obstacle_of, both_ways=True),
    reshape=Reshape(
        out=lambda encoder, name, tensor: tensor - 1 if _from_one(name) else tensor,
        back=lambda name, tensor, shape: tensor + 1 if _from_one(name) else tensor,
    ),
)
