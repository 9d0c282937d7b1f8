"""MPNet's Hugging Face layout: RoBERTa's without token types, with biases of scores by distance."""

from dataclasses import replace
from typing import Any, Literal

from bertc.hub.families import bert_like
from bertc.hub.families.config import Single, VocabularySize
from bertc.hub.families.family import Candidate, Tokens
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.families.roberta import ROBERTA, HfRoberta
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import BucketedPositions, TablePositions
from bertc.ir.vocabulary import WordPiece

TITLE, PADDING_IDX = "MPNet", 1  # modeling_mpnet.py, padding_idx
NUMBER, BUCKETS = "relative_attention_num_buckets", 32  # compute_position_bias knows no others
NAMES = {
    "encoder.relative.distance": "encoder.relative_attention_bias",
    "encoder.attention.{n}.query": "encoder.layer.{n}.attention.attn.q",
    "encoder.attention.{n}.key": "encoder.layer.{n}.attention.attn.k",
    "encoder.attention.{n}.value": "encoder.layer.{n}.attention.attn.v",
    "encoder.attention.{n}.output": "encoder.layer.{n}.attention.attn.o",
    "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.LayerNorm",
}


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


def _obstacle(candidate: Candidate) -> Obstacle | None:
    """Another padding token: which tokens have positions depends on it, by no setting."""
    positions = candidate.encoder.positions
    if isinstance(positions, TablePositions) and PADDING_IDX in (candidate.pad, positions.padding):
        return None
    return Obstacle("vocab", f"the {TITLE} layout has the padding token at {PADDING_IDX}")


def _settings(config: HfRoberta) -> dict[str, Any]:
    positions = BucketedPositions(
        rows=config.max_position_embeddings, offset=config.offset, padding=PADDING_IDX
    )
    return {**bert_like.settings_of(config), "positions": positions}


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    known = ROBERTA.config_of(encoder, tokens)
    del known["type_vocab_size"]
    rows = bert_like.same_rows(encoder, PADDING_IDX + 1)
    changed = {"max_position_embeddings": rows, "pad_token_id": PADDING_IDX, NUMBER: BUCKETS}
    return {**known, **changed}


MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    title=TITLE,
    config=HfMpnet,
    prefix="mpnet",
    names={k: v for k, v in ROBERTA.names.items() if not k.endswith("segment")} | NAMES,
    classes=tuple(
        replace(hf_class, name=hf_class.name.replace("Roberta", TITLE))
        for hf_class in ROBERTA.classes
    ),
    tasks=replace(
        ROBERTA.tasks,
        classes=tuple(
            replace(task_class, name=task_class.name.replace("Roberta", TITLE))
            for task_class in ROBERTA.tasks.classes
        ),
    ),
    claims=lambda candidate: isinstance(candidate.encoder.positions, BucketedPositions),
    obstacle=_obstacle,
    settings=_settings,
    config_of=_config_of,
    vocabulary=WordPiece,
)
