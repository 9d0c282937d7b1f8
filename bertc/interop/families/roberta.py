"""RoBERTa's Hugging Face layout: BERT's, with positions counted from the padding id + 1."""

from typing import Any, Literal, Self

from pydantic import model_validator

from bertc.interop.families import bert_like
from bertc.interop.families.config import HfConfig, TokenId, VocabularySize
from bertc.interop.families.family import (
    Candidate,
    Family,
    TaskClass,
    TaskHeads,
    Tokens,
    hf_class,
)
from bertc.interop.families.obstacle import Obstacle
from bertc.ir.network.encoder import Encoder
from bertc.ir.vocabulary import ByteBpe

TITLE = "RoBERTa"


class HfRoberta(HfConfig):
    """RobertaConfig."""

    model_type: Literal["roberta"] = "roberta"
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


def _obstacle(candidate: Candidate) -> Obstacle | None:
    positions, first = candidate.encoder.positions, candidate.pad + 1
    if positions.offset == first:
        return bert_like.obstacle_of(candidate, bert_like.always_gelu(candidate, TITLE))
    rows = positions.rows - positions.offset + first
    counted = Obstacle(
        f"positions=learned({positions.rows}, offset={positions.offset})",
        f"the RoBERTa layout counts positions from the padding id + 1 = {first}",
        f"positions=learned({rows}, offset={first})",
    )
    return bert_like.obstacle_of(candidate, counted)


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    return {**bert_like.config_of(encoder, tokens), **bert_like.ends(tokens)}


ROBERTA = Family(
    model_type="roberta",
    title=TITLE,
    config=HfRoberta,
    prefix="roberta",
    names={
        **bert_like.BODY,
        **bert_like.POOLER,
        "heads.mlm.dense": "lm_head.dense",
        "heads.mlm.norm": "lm_head.layer_norm",
        "heads.mlm": "lm_head",
    },
    copies={"lm_head.decoder.weight": bert_like.TABLE, "lm_head.decoder.bias": "lm_head.bias"},
    classes=(hf_class("RobertaForMaskedLM", "mlm"), hf_class("RobertaModel", "pooler")),
    tasks=TaskHeads(
        (
            TaskClass(
                "RobertaForSequenceClassification",
                ("labels", "score"),
                "classifier.out_proj",
                "read",
                "classifier.dense",
            ),
            *bert_like.pooled_classes("Roberta")[1:],
        ),
        dropout="classifier_dropout",
    ),
    says=bert_like.SAYS,
    claims=lambda candidate: bool(candidate.encoder.positions.offset),
    obstacle=_obstacle,
    settings=bert_like.settings_of,
    config_of=_config_of,
    recipe="roberta",
    vocabulary=ByteBpe,
    head_activation="gelu",
    unread=frozenset({"pooler.dense.weight", "pooler.dense.bias"}),
)
