"""MPNet's Hugging Face layout: RoBERTa's without token types, with biases of scores by distance."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from bertc.hub.families import bert_like
from bertc.hub.families.config import Single, VocabularySize
from bertc.hub.families.family import Candidate, Tokens
from bertc.hub.families.obstacle import Obstacle, first_of
from bertc.hub.families.roberta import ROBERTA, HfRoberta
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import BucketedPositions, LearnedPositions
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
    positions = candidate.encoder.positions
    assert isinstance(positions, BucketedPositions), "it claims no others"
    if PADDING_IDX not in (
        candidate.pad,
        positions.padding,
    ):  # which tokens have positions depends on it, by no setting
        return Obstacle("vocab", f"the {TITLE} layout has the padding token at {PADDING_IDX}")
    return ROBERTA.obstacle(candidate) or first_of(_differences(candidate))


def _differences(candidate: Candidate) -> Iterator[Obstacle]:
    """Settings that differ from MPNetModel's, of those that RoBERTa's layout has."""
    encoder = candidate.encoder
    rows = (
        (encoder.segments > 0, "has no token types", "segments=0"),
        (bool(encoder.languages), "adds no language to a token", "language_embeddings=false"),
        (encoder.factorised, "has a table as wide as layers", f"embedding={encoder.hidden}"),
        (candidate.shares, "shares no layers", "share=none"),
        (candidate.predicts and encoder.head.kind != "transform", "has a dense layer and a norm",
         "head=transform"),
    )  # fmt: skip
    for differs, why, mend in rows:
        if differs:
            yield Obstacle(mend.partition("=")[0], f"the {TITLE} layout {why}", mend)


def _settings(config: HfRoberta) -> dict[str, Any]:
    positions = BucketedPositions(
        rows=config.max_position_embeddings, offset=config.offset, padding=PADDING_IDX
    )
    return {**bert_like.settings_of(config), "positions": positions}


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    known = ROBERTA.config_of(encoder, tokens)
    del known["type_vocab_size"]
    return {**known, NUMBER: BUCKETS}


MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    title=TITLE,
    config=HfMpnet,
    prefix="mpnet",
    names={k: v for k, v in ROBERTA.names.items() if not k.endswith("segment")} | NAMES,
    classes=tuple(
        replace(each, name=each.name.replace("Roberta", TITLE)) for each in ROBERTA.classes
    ),
    tasks=replace(
        ROBERTA.tasks,
        classes=tuple(
            replace(each, name=each.name.replace("Roberta", TITLE))
            for each in ROBERTA.tasks.classes
        ),
    ),
    says={
        **{kind: said for kind, said in bert_like.SAYS.items() if kind is not LearnedPositions},
        BucketedPositions: ("rows", "offset", "padding"),
        FullAttention: (),
    },
    claims=lambda candidate: isinstance(candidate.encoder.positions, BucketedPositions),
    obstacle=_obstacle,
    settings=_settings,
    config_of=_config_of,
    vocabulary=WordPiece,
)
