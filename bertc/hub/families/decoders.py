"""Layouts of decoders, read as they were trained or as encoders: Qwen3's, Llama's, Mistral's."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertc.hub.families import config, family
from bertc.hub.families.config import PadId, Single, Tokens, VocabularySize
from bertc.hub.families.eurobert import BODY
from bertc.hub.families.family import Candidate, Family, Obstacle
from bertc.hub.families.rotary_like import Content, HfGrouped
from bertc.ir.base import Width
from bertc.ir.learning.objective import Clm, Mntp, Pretraining
from bertc.ir.network.attention import FullAttention, LocalAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import LinearHead
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.vocabulary import ByteBpe


class HfDecoder(HfGrouped):
    """Settings of decoders; ``is_causal=false`` lets tokens attend to all others.

    transformers 5 reads that in masking_utils.py, create_causal_mask.
    """

    copied = frozenset({"max_position_embeddings"})

    is_causal: bool = True
    vocab_size: VocabularySize = 32_000
    hidden_size: Width = 4096
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    pad_token_id: PadId | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        said = "a decoder, read as it was trained: tokens attend to earlier ones alone"
        return (*super().notes, *[f"{said}; causal=false makes an encoder of it"] * self.is_causal)

    @property
    def learned(self) -> Pretraining:
        """The next token, of masked ones too where all tokens are seen."""
        return Clm() if self.is_causal else Mntp()

    def settings(self) -> dict[str, Any]:
        head = LinearHead(bias=False, tied=self.tie_word_embeddings)
        return super().settings() | {"causal": self.is_causal, "head": head}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        ends = {"bos_token_id": tokens.bos, "eos_token_id": tokens.eos}
        causal = {} if encoder.causal else {"is_causal": False}
        return super().values(encoder, tokens) | ends | causal


class HfQwen3(HfDecoder):
    """Qwen3Config."""

    missing = HfDecoder.missing | {"mlp_bias"}
    ignored = frozenset({"sliding_window", "max_window_layers"})
    only = {**HfDecoder.only, "use_sliding_window": Single(False, "layers have windows")}

    model_type: Literal["qwen3"] = "qwen3"
    vocab_size: VocabularySize = 151_936
    intermediate_size: Width = 22_016
    head_dim: Width = 128
    max_position_embeddings: Width = 32_768
    layer_types: list[Literal["full_attention"]] | None = None

    def _attention(self, **how: Any) -> FullAttention:
        return FullAttention(**how, norm="rms")


class HfLlama(HfDecoder):
    """LlamaConfig."""

    ignored = frozenset({"pretraining_tp"})

    model_type: Literal["llama"] = "llama"
    intermediate_size: Width = 11_008
    max_position_embeddings: Width = 2048


class HfMistral(HfDecoder):
    """MistralConfig; a token attends to ``sliding_window`` tokens, itself the last of them."""

    missing = HfDecoder.missing | {"mlp_bias", "attention_bias"}

    model_type: Literal["mistral"] = "mistral"
    intermediate_size: Width = 14_336
    num_key_value_heads: int | None = 8
    max_position_embeddings: Width = 131_072
    sliding_window: Annotated[int, Field(ge=2, le=500_000)] | None = 4096

    @model_validator(mode="after")
    def _windows_look_back(self) -> Self:
        if self.sliding_window and not self.is_causal:
            message = f"is_causal = false, sliding_window = {self.sliding_window}"
            raise ValueError(message, config.NO_CLASS)
        return self

    def _attention(self, **how: Any) -> Content:
        if self.sliding_window is None:
            return FullAttention(**how)
        return LocalAttention(window=2 * self.sliding_window - 2, **how)

    def _positions(self) -> RotaryPositions:
        turned = super()._positions()
        near = {"local_theta": turned.theta} if self.sliding_window else {}
        return turned.model_copy(update=near)

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention = encoder.attention
        window = attention.window // 2 + 1 if isinstance(attention, LocalAttention) else None
        return super().values(encoder, tokens) | {"sliding_window": window}


def obstacle_of(candidate: Candidate, both_ways: bool = False) -> Obstacle | None:
    """The first thing that no class of decoders has: rows or windows of tokens on both sides."""
    encoder = candidate.encoder
    if encoder.causal or encoder.pooler:
        return None
    if encoder.attention.kind == "local" and not both_ways:
        return Obstacle("causal=false", "its windows are of earlier tokens")
    rows = any(term.objective.states.pooled for term in candidate.resolved.terms())
    return Obstacle("causal=false", "its class scores the last token of a row") if rows else None


def decoder_classes(title: str, kind: str = "") -> tuple[family.HfClass, ...]:
    """The class of a head, as clm learns it or mntp, and of the network alone."""
    scores, alone = f"{title}ForCausalLM", family.hf_class(f"{title}{kind}Model")
    return *(family.hf_class(scores, head) for head in ("clm", "mlm")), alone


def decoder_tasks(title: str, classes: int = 2) -> family.TaskHeads:
    """Task classes; that for rows has no dropout, and no file a setting of it."""
    rows, unnamed = f"{title}ForSequenceClassification", "hidden_dropout"
    of_rows = family.TaskClass(rows, "score", "unread", dropout=unnamed)
    of_tokens = family.TaskClass(f"{title}ForTokenClassification", "score", "unread")
    known, none = (of_rows, of_tokens)[:classes], f"{title} has no class for it that is read"
    return family.TaskHeads(known, default=0.1, otherwise=none)


def decoder(title: str, settings: type[HfDecoder], claims: Any, **names: str) -> Family:
    """A family of Llama's blocks, with further ``names`` of weights."""
    return Family(
        title=title, config=settings, prefix="model", classes=decoder_classes(title),
        names={**BODY, **names, "heads.clm": "lm_head", "heads.mlm": "lm_head"},
        copies={"lm_head.weight": "embed_tokens.weight"}, tasks=decoder_tasks(title),
        claims=claims, recipe="bert", vocabulary=ByteBpe, poolers={}, obstacle=obstacle_of,
    )  # fmt: skip


def _is_llama(candidate: Candidate) -> bool:
    """True for the blocks of all decoders here that read as one."""
    encoder = candidate.encoder
    return encoder.causal and candidate.turns and encoder.norm.function == "rms"


QUERY_KEY = {
    f"encoder.attention.{{n}}.{part}_norm": f"layers.{{n}}.self_attn.{part[0]}_norm"
    for part in ("query", "key")
}
QWEN3 = decoder(
    "Qwen3",
    HfQwen3,
    lambda c: c.turns and getattr(c.encoder.attention, "norm", "") == "rms",
    **QUERY_KEY,
)
MISTRAL = decoder(
    "Mistral",
    HfMistral,
    lambda c: (
        "mistral" in c.systems or (_is_llama(c) and isinstance(c.encoder.attention, LocalAttention))
    ),
)
LLAMA = decoder("Llama", HfLlama, lambda c: "llama" in c.systems or _is_llama(c))
