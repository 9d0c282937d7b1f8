"""ELECTRA's Hugging Face layout, for discriminators and networks imported from it."""

from dataclasses import replace
from typing import Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import ABSOLUTE, HfConfig, Tokens
from bertc.hub.families.family import Candidate, Family, TaskHeads, hf_class, poolers
from bertc.ir.base import Width
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import WordPiece

POOLERS = poolers("summary_activation", {"gelu": "gelu", True: "tanh"})
OF_ROWS, OF_CHOICES, *_ = bert.pooled_classes("Electra", "classifier.dense")


class HfElectra(HfConfig):
    """ElectraConfig; defaults are those of the small release."""

    only = ABSOLUTE

    model_type: Literal["electra"] = "electra"
    embedding_size: Width = 128
    hidden_size: Width = 256
    num_attention_heads: Heads = 4
    intermediate_size: Width = 1024
    summary_activation: str | None = "gelu"

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"embedding": self.embedding_size}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        return super().values(encoder, tokens) | {"embedding_size": encoder.embedding}


def _claims(candidate: Candidate) -> bool:
    """True for discriminators, for imports from this layout, and for tasks tuned from it."""
    judges = any(term.objective.fills == "replaced" for term in candidate.resolved.terms())
    return bool(candidate.encoder.segments) and (judges or "electra" in candidate.systems)


ELECTRA = Family(
    title="ELECTRA",
    config=HfElectra,
    prefix="electra",
    names={
        **bert.BODY,
        "encoder.embeddings.project": "embeddings_project",
        **bert.mlm_keys("generator_predictions", "generator_lm_head"),
        "heads.rtd.dense": "discriminator_predictions.dense",
        "heads.rtd": "discriminator_predictions.dense_prediction",
    },
    copies={"generator_lm_head.weight": bert.TABLE},
    classes=(
        hf_class("ElectraForPreTraining", "rtd"),
        hf_class("ElectraForMaskedLM", "mlm"),
        hf_class("ElectraModel"),
    ),
    tasks=TaskHeads(
        (
            replace(OF_ROWS, head="classifier.out_proj", always=POOLERS["gelu"]),
            replace(OF_CHOICES, pooler="perhaps", own_pooler="sequence_summary.summary"),
            *bert.token_classes("Electra"),
        ),
        summary={"summary_activation": "gelu"},
    ),
    claims=_claims,
    recipe="electra",
    vocabulary=WordPiece,
    labels={"mlm": "labels", "rtd": "labels"},
    head_activation="gelu",
    poolers=POOLERS,
)
