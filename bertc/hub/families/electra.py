"""ELECTRA's Hugging Face layout, for discriminators and networks imported from it."""

from collections.abc import Mapping
from typing import Any, Literal

from bertc.hub.families import bert_like
from bertc.hub.families.config import ABSOLUTE, HfConfig
from bertc.hub.families.family import Candidate, Family, TaskClass, TaskHeads, Tokens, hf_class
from bertc.ir.base import Width
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import PoolerKind
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import WordPiece

NAME, TITLE = "electra", "ELECTRA"
POOLERS: Mapping[PoolerKind, Mapping[str, Any]] = {
    "gelu": {"summary_activation": "gelu"},
    True: {"summary_activation": "tanh"},
}


class HfElectra(HfConfig):
    """ElectraConfig; defaults are those of the small release."""

    only = ABSOLUTE

    model_type: Literal["electra"] = "electra"
    embedding_size: Width = 128
    hidden_size: Width = 256
    num_attention_heads: Heads = 4
    intermediate_size: Width = 1024
    summary_activation: str | None = "gelu"

    @property
    def embedding(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size


def _claims(candidate: Candidate) -> bool:
    """True for discriminators, for imports from this layout, and for tasks tuned from it."""
    known = candidate.finds_replaced or NAME in candidate.systems
    return bool(candidate.encoder.segments) and known


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    return {**bert_like.config_of(encoder, tokens), "embedding_size": encoder.embedding}


ELECTRA = Family(
    model_type=NAME,
    title=TITLE,
    config=HfElectra,
    prefix="electra",
    names={
        **bert_like.BODY,
        "encoder.embeddings.project": "embeddings_project",
        "heads.mlm.dense": "generator_predictions.dense",
        "heads.mlm.norm": "generator_predictions.LayerNorm",
        "heads.mlm": "generator_lm_head",
        "heads.rtd.dense": "discriminator_predictions.dense",
        "heads.rtd": "discriminator_predictions.dense_prediction",
    },
    copies={"generator_lm_head.weight": bert_like.TABLE},
    classes=(
        hf_class("ElectraForPreTraining", "rtd"),
        hf_class("ElectraForMaskedLM", "mlm"),
        hf_class("ElectraModel"),
    ),
    tasks=TaskHeads(
        (
            TaskClass(
                "ElectraForSequenceClassification",
                ("labels", "score"),
                "classifier.out_proj",
                "read",
                "classifier.dense",
                always=POOLERS["gelu"],
            ),
            TaskClass(
                "ElectraForMultipleChoice",
                ("choice",),
                "classifier",
                "perhaps",
                "sequence_summary.summary",
            ),
            *bert_like.token_classes("Electra", "ForQuestionAnswering"),
        ),
        dropout="classifier_dropout",
        summary={"summary_activation": "gelu"},
    ),
    claims=_claims,
    settings=bert_like.settings_of,
    config_of=_config_of,
    recipe="electra",
    vocabulary=WordPiece,
    labels={"mlm": "labels", "rtd": "labels"},
    head_activation="gelu",
    poolers=POOLERS,
)
