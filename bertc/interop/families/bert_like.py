"""Data and functions of several families: encoders with tables of positions and a norm behind.

Whatever a family shares with others it takes from here by name.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bertc.interop.families.config import ACTIVATIONS, MEANING, HfConfig
from bertc.interop.families.family import Candidate, TaskClass, Tokens
from bertc.interop.families.obstacle import Obstacle, first_of
from bertc.ir.base import Node, Normal
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Dropout, Encoder, LayerWidths
from bertc.ir.network.ffn import Mlp
from bertc.ir.network.head import TransformHead
from bertc.ir.network.norm import PostNorm
from bertc.ir.network.positions import LearnedPositions
from bertc.ir.network.sharing import ShareNone
from bertc.ir.network.table import WholeTable

NETWORK = ("vocab_size", "embedding", "hidden", "segments", "languages", "attention_owner",
           "ffn_owner", "causal", "two_streams", "pooler")  # fmt: skip
"""Fields of an encoder that are no kinds: each has a setting, or stands in the way."""
PARTS: Mapping[type[Node], Collection[str]] = {
    Encoder: NETWORK,
    WholeTable: (),
    LearnedPositions: ("rows", "offset"),
    FullAttention: (),
    Mlp: ("activation",),
    PostNorm: ("eps",),
    LayerWidths: ("heads", "head_dim", "ffn"),
    Dropout: ("hidden", "attention"),
}
"""The kinds of parts below the head, and what a configuration says of each."""
SAYS: Mapping[type[Node], Collection[str]] = {**PARTS, TransformHead: ()}

EMBEDDINGS = {
    "encoder.embeddings.token": "embeddings.word_embeddings",
    "encoder.embeddings.position": "embeddings.position_embeddings",
    "encoder.embeddings.segment": "embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "embeddings.LayerNorm",
}
BODY = {
    **EMBEDDINGS,
    "encoder.attention.{n}.query": "encoder.layer.{n}.attention.self.query",
    "encoder.attention.{n}.key": "encoder.layer.{n}.attention.self.key",
    "encoder.attention.{n}.value": "encoder.layer.{n}.attention.self.value",
    "encoder.attention.{n}.output": "encoder.layer.{n}.attention.output.dense",
    "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.output.LayerNorm",
    "encoder.ffn.{n}.inner": "encoder.layer.{n}.intermediate.dense",
    "encoder.ffn.{n}.outer": "encoder.layer.{n}.output.dense",
    "encoder.ffn.{n}.norm": "encoder.layer.{n}.output.LayerNorm",
}
POOLER = {"encoder.pooler": "pooler.dense"}
TABLE = "embeddings.word_embeddings.weight"
ENDING = {"tie_word_embeddings": True, "dtype": "float32"}
"""Settings that every configuration has."""


def pooled_classes(title: str) -> tuple[TaskClass, ...]:
    """The classes of tasks that score the pooled state with one linear map."""
    return (
        TaskClass(f"{title}ForSequenceClassification", ("labels", "score"), "classifier", "read"),
        TaskClass(f"{title}ForMultipleChoice", ("choice",), "classifier", "read"),
        *token_classes(title, "ForQuestionAnswering"),
    )


def token_classes(title: str, reads: str) -> tuple[TaskClass, ...]:
    """The classes of tasks that score every token."""
    return (
        TaskClass(f"{title}ForTokenClassification", ("tags",), "classifier", "unread"),
        TaskClass(f"{title}{reads}", ("span",), "qa_outputs", "unread"),
    )


def settings_of(config: HfConfig) -> dict[str, Any]:
    """The network that a configuration describes."""
    return {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn": config.ffn,
        "embedding": config.embedding,
        "share": ShareNone(),
        "activation": MEANING[config.hidden_act],
        "norm": PostNorm(eps=config.layer_norm_eps),
        "positions": LearnedPositions(rows=config.max_position_embeddings, offset=config.offset),
        "attention": FullAttention(),
        "segments": config.type_vocab_size,
        "dropout": Dropout(
            hidden=config.hidden_dropout_prob, attention=config.attention_probs_dropout_prob
        ),
        "initializer": Normal(std=config.initializer_range),
        "head": TransformHead(),
        "languages": (),
        "language_embeddings": False,
    }


def config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    """The settings by the names of BertConfig."""
    return {
        "hidden_size": encoder.hidden,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": encoder.layers[0].heads,
        "intermediate_size": encoder.layers[0].ffn,
        "hidden_act": ACTIVATIONS[encoder.ffn.activation],
        "hidden_dropout_prob": encoder.dropout.hidden,
        "attention_probs_dropout_prob": encoder.dropout.attention,
        "max_position_embeddings": encoder.positions.rows,
        "type_vocab_size": encoder.segments,
        "initializer_range": init_std(encoder),
        "layer_norm_eps": encoder.norm.eps,
        "pad_token_id": tokens.pad,
        **ENDING,
    }


def ends(tokens: Tokens) -> dict[str, int | None]:
    """The tokens before and after a text; those of every row where a tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }


def init_std(encoder: Encoder) -> float:
    """The deviation that the classes draw new heads with, bertc's choice where widths decide."""
    return 0.02 if encoder.initializer.kind == "fan-in" else encoder.initializer.std


def obstacle_of(candidate: Candidate, *own: Obstacle | None) -> Obstacle | None:
    """The obstacles of all these families and those that one has besides."""
    encoder = candidate.encoder
    longest = max(stage.seq for stage in candidate.resolved.stages)
    return unlike_encoders(encoder) or first_of(
        [
            *_unlike_bert(encoder, longest),
            *_unequal(encoder),
            *_with_segments(encoder, candidate.predicts),
            *(each for each in own if each),
        ]
    )


def unlike_encoders(encoder: Encoder) -> Obstacle | None:
    """A direction, or a table of tokens, that no layout has."""
    if encoder.causal:
        return Obstacle("objective=clm", "every token of the layouts sees both sides")
    if encoder.table.kind != "whole" or encoder.table.scaled:
        why = "the layouts have one table, read as it is"
        return Obstacle(f"table={encoder.table.kind}", why, "table=whole")
    return None


def _unlike_bert(encoder: Encoder, seq: int) -> Iterator[Obstacle]:
    """The settings that none of them has, of an encoder for rows of up to ``seq`` tokens."""
    if encoder.positions.kind != "learned":
        why = "all layouts have a table of positions"
        yield Obstacle(f"positions={encoder.positions.kind}", why, f"positions={seq}")
    if encoder.norm.kind != "post":
        yield Obstacle(f"norm={encoder.norm.kind}", "all layouts norm after each part", "norm=post")
    elif not encoder.norm.embeddings:
        yield Obstacle(
            "norm=post(embeddings=false)", "all layouts norm the embeddings", "norm=post"
        )
    rates = encoder.dropout
    plain = f"dropout=dropout({rates.hidden:g}, {rates.attention:g})"
    if rates.ffn:
        why = "all layouts have none within the part"
        yield Obstacle(f"dropout.ffn={rates.ffn}", why, plain)
    if rates.last:
        yield Obstacle(f"dropout.last={rates.last}", "all layouts have none at the end", plain)


def _unequal(encoder: Encoder) -> Iterator[Obstacle]:
    """Widths of layers that differ, or of heads that do not fill the hidden width."""
    first, hidden = encoder.layers[0], encoder.hidden
    for setting, widths in (
        ("heads", [layer.heads for layer in encoder.layers]),
        ("ffn", [layer.ffn for layer in encoder.layers]),
    ):
        if len(set(widths)) > 1:
            equal = f"{setting}={widths[0]}"
            yield Obstacle(f"{setting}={listed(widths)}", "all layouts have equal layers", equal)
    if first.heads * first.head_dim != hidden:
        yield Obstacle(
            f"head_dim={first.head_dim}",
            f"in all layouts it is hidden / heads = {hidden} / {first.heads}",
            "" if hidden % first.heads else f"head_dim={hidden // first.heads}",
        )


def _with_segments(encoder: Encoder, predicts: bool) -> Iterator[Obstacle]:
    """The settings that the layouts with token types lack."""
    why = "of the layouts only XLM's has it, and that has no token types"
    if not encoder.segments:
        return
    if encoder.languages:
        yield Obstacle("language_embeddings=true", why, "language_embeddings=false")
    if predicts and encoder.head.kind != "transform":
        yield Obstacle(f"head={encoder.head.kind}", why, "head=transform")


def counted_from_0(encoder: Encoder, title: str) -> Obstacle | None:
    """Positions that are counted from elsewhere, where a layout counts them from 0."""
    if not encoder.positions.offset:
        return None
    return Obstacle(
        f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
        f"the {title} layout counts positions from 0",
        from_0(encoder),
    )


def from_0(encoder: Encoder) -> str:
    """The setting for as many positions, counted from 0."""
    return f"positions={encoder.positions.rows - encoder.positions.offset}"


def always_gelu(candidate: Candidate, title: str) -> Obstacle | None:
    """An activation of the masked-LM head, where that of a layout is always gelu."""
    activation = candidate.encoder.ffn.activation
    if not candidate.predicts or activation == "gelu":
        return None
    return Obstacle(
        f"activation={activation}",
        f"the masked-LM head of the {title} layout is always gelu",
        "activation=gelu",
    )


def listed(numbers: Collection[int]) -> str:
    """Numbers as a spec has them."""
    return "[" + ", ".join(map(str, numbers)) + "]"
