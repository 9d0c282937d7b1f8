"""UltraBERT's Hugging Face layout: EuroBERT's blocks, mostly local, and a head of two layers."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.hub.families import bert, config, eurobert, family, rotary_like
from bertc.hub.families.rotary_like import GLOBAL, LOCAL, LayerKind
from bertc.ir.base import Width
from bertc.ir.network.attention import LocalAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import TwoLayerHead
from bertc.ir.network.positions import RotaryPositions, Theta


class HfUltraBert(rotary_like.HfGrouped):
    """UltrabertConfig; a window has ``sliding_window`` tokens on each side.

    First files have a window, or none, and a base of angles for each layer: transformers reads the
    first window, and the last base of a kind.
    """

    only = {}
    model_type: Literal["ultrabert"] = "ultrabert"
    vocab_size: config.VocabularySize = 32_000
    hidden_size: Width = 4096
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    intermediate_size: Width = 11_008
    max_position_embeddings: Width = 32_768
    prediction_head_size: Width = 768
    classifier_pooling: Literal["cls", "mean"] = "cls"
    sliding_window: Annotated[int, Field(ge=1, le=500_000)] = 128
    attention_windows: list[int | None] | None = None
    layer_types: list[LayerKind] | None = None
    rope_parameters: rotary_like.Ropes | None = rotary_like.UNSCALED  # type: ignore[assignment]
    rope_scaling: None = rotary_like.UNSCALED
    rope_theta: list[Theta] | None = None  # type: ignore[assignment]

    @property
    def _kinds(self) -> list[LayerKind]:
        windows = self.attention_windows or [n % 3 for n in range(1, self.num_hidden_layers + 1)]
        return self.layer_types or [LOCAL if window else GLOBAL for window in windows]

    def _attention(self, **how: Any) -> rotary_like.Content:
        sides = next(filter(None, self.attention_windows or ()), self.sliding_window)
        return rotary_like.windows_by_kind(self._kinds, sides, how)

    def _positions(self) -> RotaryPositions:
        bases = dict(zip(self._kinds, self.rope_theta or (), strict=False))
        far, near = bases.get(GLOBAL, 2_560_000.0), bases.get(LOCAL, 10_000.0)
        return rotary_like.turned_by_kind(self.rope_parameters, far, near)

    def settings(self) -> dict[str, Any]:
        head = TwoLayerHead(width=self.prediction_head_size, tied=self.tie_word_embeddings)
        return super().settings() | {"head": head}

    @classmethod
    def values(cls, encoder: Encoder, tokens: config.Tokens) -> dict[str, Any]:
        known = {**super().values(encoder, tokens), **rotary_like.by_kind(encoder)}
        if isinstance(encoder.attention, LocalAttention):
            known["sliding_window"] = encoder.attention.window // 2
        if isinstance(encoder.head, TwoLayerHead):
            known |= {"prediction_head_size": encoder.head.width}
        return known


def _claims(candidate: family.Candidate) -> bool:
    """True for blocks as EuroBERT's with windows, or with its head."""
    encoder = candidate.encoder
    marked = encoder.attention.kind == "local" or encoder.head.kind == "two-layer"
    marked |= "ultrabert" in candidate.systems
    return eurobert.EUROBERT.claims(candidate) and marked


NEEDS = {"classifier_pooling": "cls"}
ROWS = family.TaskClass("UltrabertForSequenceClassification", "classifier", "unread", needs=NEEDS)
ULTRABERT = replace(
    eurobert.EUROBERT, title="UltraBERT", config=HfUltraBert, prefix="ultrabert",
    names={
        **eurobert.BODY, "heads.mlm.inner": "head.linear1", "heads.mlm.dense": "head.linear2",
        "heads.mlm": "cls",
    },
    copies={"cls.weight": "embed_tokens.weight"},
    classes=(family.hf_class("UltrabertForMaskedLM", "mlm"), family.hf_class("UltrabertModel")),
    tasks=family.TaskHeads(
        (ROWS, *bert.token_classes("Ultrabert")), default=0.0, summary=NEEDS,
        otherwise="UltraBERT has no class for choices",
    ),
    claims=_claims, recipe="ultrabert", poolers={},
)  # fmt: skip
