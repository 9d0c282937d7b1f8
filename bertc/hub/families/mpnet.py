"""MPNet's Hugging Face layout: RoBERTa's without token types, with biases of scores by distance."""

from dataclasses import replace
from typing import Any, Literal

from bertc.hub.families.config import Single, VocabularySize
from bertc.hub.families.family import Candidate
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.families.roberta import HfRoberta, roberta_layout
from bertc.hub.families.tokens import Tokens
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

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network."""
        rows = self.max_position_embeddings
        positions = BucketedPositions(rows=rows, offset=self.offset, padding=PADDING_IDX)
        return super().settings() | {"positions": positions}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        """Settings of an encoder."""
        known = super().values(encoder, tokens)
        if isinstance(encoder.positions, TablePositions):
            known["max_position_embeddings"] += PADDING_IDX - known["pad_token_id"]
        return known | {"pad_token_id": PADDING_IDX, NUMBER: BUCKETS}


def _obstacle(candidate: Candidate) -> Obstacle | None:
    """Another padding token: which tokens have positions depends on it, by no setting."""
    positions = candidate.encoder.positions
    if isinstance(positions, TablePositions) and PADDING_IDX in (candidate.pad, positions.padding):
        return None
    return Obstacle("vocab", f"the {TITLE} layout has the padding token at {PADDING_IDX}")


LIKE = roberta_layout(
    HfMpnet,
    TITLE,
    TITLE,
    WordPiece,
    lambda candidate: isinstance(candidate.encoder.positions, BucketedPositions),
)
MPNET = replace(
    LIKE,
    prefix="mpnet",
    names={k: v for k, v in LIKE.names.items() if not k.endswith("segment")} | NAMES,
    obstacle=_obstacle,
)
