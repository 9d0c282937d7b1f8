"""RoBERTa's Hugging Face layout: BERT's, with positions counted from the padding id + 1.

XLM-R and CamemBERT are the same network with SentencePiece vocabularies; only the names of the
layout, of its classes and of its defaults differ.
"""

from collections.abc import Callable
from typing import Any, Literal, Self

from pydantic import model_validator

from bertc.hub.families import bert
from bertc.hub.families.config import ABSOLUTE, HfConfig, TokenId, VocabularySize
from bertc.hub.families.family import Candidate, Family, TaskClass, TaskHeads, hf_class
from bertc.hub.families.tokens import Tokens, ends
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import TablePositions
from bertc.ir.vocabulary import ByteBpe, Unigram, Vocabulary


class HfRoberta(HfConfig):
    """RobertaConfig."""

    only = ABSOLUTE

    model_type: Literal["roberta", "xlm-roberta", "camembert"] = "roberta"
    vocab_size: VocabularySize = 50_265
    pad_token_id: TokenId = 1

    @model_validator(mode="after")
    def _leaves_positions(self) -> Self:
        if self.offset >= self.max_position_embeddings:
            raise ValueError(
                f"pad_token_id = {self.pad_token_id} leaves none of the "
                f"{self.max_position_embeddings} positions",
                "the RoBERTa layout counts positions from the padding id + 1",
            )
        return self

    @property
    def offset(self) -> int:
        """The first row of the position table in use."""
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


def roberta_layout(
    config: type[HfRoberta],
    title: str,
    classes: str,
    vocabulary: Callable[..., Vocabulary],
    claims: Callable[[Candidate], bool],
) -> Family[HfRoberta]:
    """The layout of a network of RoBERTa's kind; its ``classes`` begin with this name."""
    return Family(
        model_type=config.model_fields["model_type"].default,
        title=title,
        config=config,
        prefix="roberta",
        names={
            **bert.BODY,
            **bert.POOLER,
            "heads.mlm.dense": "lm_head.dense",
            "heads.mlm.norm": "lm_head.layer_norm",
            "heads.mlm": "lm_head",
        },
        copies={"lm_head.decoder.weight": bert.TABLE, "lm_head.decoder.bias": "lm_head.bias"},
        classes=(hf_class(f"{classes}ForMaskedLM", "mlm"), hf_class(f"{classes}Model", "pooler")),
        tasks=TaskHeads(
            (
                TaskClass(
                    f"{classes}ForSequenceClassification",
                    "classifier.out_proj",
                    "read",
                    "classifier.dense",
                ),
                *bert.pooled_classes(classes)[1:],
            ),
            dropout="classifier_dropout",
        ),
        claims=claims,
        recipe="roberta",
        vocabulary=vocabulary,
        head_activation="gelu",
        unread=frozenset({"pooler.dense.weight", "pooler.dense.bias"}),
    )


def _named(candidate: Candidate, layout: str) -> bool:
    return bool(candidate.encoder.positions.offset) and layout in candidate.systems


XLM_ROBERTA = roberta_layout(
    HfXlmRoberta, "XLM-R", "XLMRoberta", Unigram, lambda candidate: _named(candidate, "xlm-roberta")
)
CAMEMBERT = roberta_layout(
    HfCamembert, "CamemBERT", "Camembert", Unigram, lambda candidate: _named(candidate, "camembert")
)
ROBERTA = roberta_layout(
    HfRoberta,
    "RoBERTa",
    "Roberta",
    ByteBpe,
    lambda candidate: bool(candidate.encoder.positions.offset),
)
