"""RoBERTa's layout: positions count from the padding id + 1; also XLM-R, CamemBERT and MPNet."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.hub.families import bert
from bertc.hub.families.config import ABSOLUTE, HfConfig, Single, Tokens, VocabularySize, ends
from bertc.hub.families.family import Candidate, Family, Obstacle, TaskClass, TaskHeads, hf_class
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import BucketedPositions, TablePositions
from bertc.ir.vocabulary import ByteBpe, Unigram, Vocabulary, WordPiece

PADDING_IDX = 1  # modeling_mpnet.py, padding_idx
NUMBER, BUCKETS = "relative_attention_num_buckets", 32  # compute_position_bias knows no others
NAMES = {
    "encoder.relative.distance": "encoder.relative_attention_bias",
    **bert.attention_keys("encoder.layer.{n}.attention.attn.{letter}"),
    "encoder.attention.{n}.output": "encoder.layer.{n}.attention.attn.o",
    "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.LayerNorm",
}


class HfRoberta(HfConfig):
    """RobertaConfig."""

    only = ABSOLUTE

    model_type: Literal["roberta", "xlm-roberta", "camembert"] = "roberta"
    vocab_size: VocabularySize = 50_265
    pad_token_id: Annotated[int, Field(ge=0, le=998)] = 1  # positions are counted from it

    @property
    def offset(self) -> int:
        return self.pad_token_id + 1

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        """Settings of an encoder; the table's rows begin with those before the first position."""
        positions = encoder.positions
        fixed = positions.padding if isinstance(positions, TablePositions) else -1
        padding = tokens.pad if fixed < 0 else fixed
        known = super().values(encoder, tokens) | ends(tokens) | {"pad_token_id": padding}
        if isinstance(positions, TablePositions):
            known["max_position_embeddings"] += padding + 1
        return known


class HfXlmRoberta(HfRoberta):
    """XLMRobertaConfig."""

    model_type: Literal["xlm-roberta"] = "xlm-roberta"
    vocab_size: VocabularySize = 30_522


class HfCamembert(HfRoberta):
    """CamembertConfig."""

    model_type: Literal["camembert"] = "camembert"
    vocab_size: VocabularySize = 30_522


class HfMpnet(HfRoberta):
    """MPNetConfig."""

    missing = frozenset({"type_vocab_size"})
    only = {NUMBER: Single(BUCKETS, "transformers has no such network")}

    model_type: Literal["mpnet"] = "mpnet"  # type: ignore[assignment]
    vocab_size: VocabularySize = 30_527
    type_vocab_size: Literal[0] = 0

    @property
    def offset(self) -> int:
        """The first row of the position table in use, whatever the padding id is."""
        return PADDING_IDX + 1

    def settings(self) -> dict[str, Any]:
        rows = self.max_position_embeddings
        positions = BucketedPositions(rows=rows, offset=self.offset, padding=PADDING_IDX)
        return super().settings() | {"positions": positions}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        known = super().values(encoder, tokens)
        if isinstance(encoder.positions, TablePositions):
            known["max_position_embeddings"] += PADDING_IDX - known["pad_token_id"]
        return known | {"pad_token_id": PADDING_IDX, NUMBER: BUCKETS}


def _layout(
    config: type[HfRoberta],
    title: str,
    classes: str,
    vocabulary: Callable[..., Vocabulary],
    system: str = "",
) -> Family:
    """The layout of a network of RoBERTa's kind, or imported from a ``system`` of this kind.

    Its ``classes`` begin with this name.
    """
    of_rows = f"{classes}ForSequenceClassification"
    return Family(
        title=title,
        config=config,
        prefix="roberta",
        names={**bert.BODY, **bert.POOLER, **bert.mlm_keys("lm_head", "lm_head", "layer_norm")},
        copies=bert.tied("lm_head"),
        classes=(hf_class(f"{classes}ForMaskedLM", "mlm"), hf_class(f"{classes}Model", "pooler")),
        tasks=TaskHeads(
            (
                TaskClass(of_rows, "classifier.out_proj", "read", "classifier.dense"),
                *bert.pooled_classes(classes)[1:],
            ),
        ),
        claims=lambda c: bool(c.encoder.positions.offset) and system in {"", *c.systems},
        recipe="roberta",
        vocabulary=vocabulary,
        head_activation="gelu",
        unread=frozenset({"pooler.dense.weight", "pooler.dense.bias"}),
    )


XLM_ROBERTA = _layout(HfXlmRoberta, "XLM-R", "XLMRoberta", Unigram, "xlm-roberta")
CAMEMBERT = _layout(HfCamembert, "CamemBERT", "Camembert", Unigram, "camembert")
ROBERTA = _layout(HfRoberta, "RoBERTa", "Roberta", ByteBpe)


def _obstacle(candidate: Candidate) -> Obstacle | None:
    """Another padding token: which tokens have positions depends on it, by no setting."""
    positions = candidate.encoder.positions
    if isinstance(positions, TablePositions) and PADDING_IDX in (candidate.pad, positions.padding):
        return None
    return Obstacle("vocab", f"the MPNet layout has the padding token at {PADDING_IDX}")


LIKE = _layout(HfMpnet, "MPNet", "MPNet", WordPiece)
MPNET = replace(
    LIKE,
    prefix="mpnet",
    names={k: v for k, v in LIKE.names.items() if not k.endswith("segment")} | NAMES,
    claims=lambda candidate: isinstance(candidate.encoder.positions, BucketedPositions),
    obstacle=_obstacle,
)
