"""Data and functions shared by families of encoders with position tables and post-norm.

Each family takes what it shares from here, by name.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bertc.hub.families.config import ACTIVATIONS, MEANING, HfConfig
from bertc.hub.families.family import Candidate, TaskClass, Tokens
from bertc.hub.families.obstacle import Obstacle, first_of
from bertc.ir.base import Node, Normal
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Dropout, Encoder, LayerWidths
from bertc.ir.network.ffn import Mlp
from bertc.ir.network.head import TransformHead
from bertc.ir.network.norm import PostNorm
from bertc.ir.network.positions import LearnedPositions, TablePositions
from bertc.ir.network.sharing import ShareNone
from bertc.ir.network.table import WholeTable

NETWORK = ("vocab_size", "embedding", "hidden", "segments", "languages", "attention_owner",
           "ffn_owner", "causal", "two_streams", "pooler")  # fmt: skip
"""Fields of an encoder that are not parts: each has a setting or is an obstacle."""
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
"""Supported kinds of parts below the head, and the fields that a configuration covers."""
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
    """Task classes that score the pooled state with one linear layer."""
    return (
        TaskClass(f"{title}ForSequenceClassification", ("labels", "score"), "classifier", "read"),
        TaskClass(f"{title}ForMultipleChoice", ("choice",), "classifier", "read"),
        *token_classes(title, "ForQuestionAnswering"),
    )


def token_classes(title: str, reads: str) -> tuple[TaskClass, ...]:
    """Task classes that score every token."""
    return (
        TaskClass(f"{title}ForTokenClassification", ("tags",), "classifier", "unread"),
        TaskClass(f"{title}{reads}", ("span",), "qa_outputs", "unread"),
    )


def settings_of(config: HfConfig) -> dict[str, Any]:
    """bertc's settings of the network in a configuration."""
    return {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn": config.ffn,
        "embedding": config.embedding,
        "share": ShareNone(),
        "activation": MEANING[config.hidden_act],
        "norm": PostNorm(eps=config.layer_norm_eps),
        "positions": LearnedPositions(
            rows=config.max_position_embeddings, offset=config.offset, padding=config.offset - 1
        ),
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
    """The settings by BertConfig's names."""
    return {
        "hidden_size": encoder.hidden,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": encoder.layers[0].heads,
        "intermediate_size": encoder.layers[0].ffn,
        "hidden_act": ACTIVATIONS[encoder.head_activation],
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
    """Tokens before and after a text; those of a row if the tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }


def init_std(encoder: Encoder) -> float:
    """Standard deviation for initialising new heads; bertc's default if widths decide it."""
    return 0.02 if encoder.initializer.kind == "fan-in" else encoder.initializer.std


def obstacle_of(candidate: Candidate, *own: Obstacle | None) -> Obstacle | None:
    """The first obstacle, of those of all these families and of the one's own."""
    encoder = candidate.encoder
    longest = max(stage.seq for stage in candidate.resolved.stages)
    return unlike_encoders(encoder) or first_of(
        [
            *_unlike_bert(encoder, longest),
            *unequal(encoder),
            *unfilled(encoder),
            *_with_segments(encoder, candidate.predicts),
            *(each for each in own if each),
        ]
    )


def unlike_encoders(encoder: Encoder) -> Obstacle | None:
    """A causal encoder, or a token table that no layout has."""
    if encoder.causal:
        return Obstacle("objective=clm", "the layouts attend in both directions")
    if encoder.table.kind != "whole" or encoder.table.scaled:
        why = "the layouts have one plain token table"
        return Obstacle(f"table={encoder.table.kind}", why, "table=whole")
    return None


def _unlike_bert(encoder: Encoder, seq: int) -> Iterator[Obstacle]:
    """Settings that none of these layouts has, for rows of up to ``seq`` tokens."""
    if not isinstance(encoder.positions, TablePositions):
        why = "no layout has such positions beside this attention"
        yield Obstacle(f"positions={encoder.positions.kind}", why, f"positions={seq}")
    if encoder.norm.kind != "post":
        why = "the layouts with a table of positions have post-norm"
        yield Obstacle(f"norm={encoder.norm.kind}", why, "norm=post")
    elif not encoder.norm.embeddings:
        why = "the layouts with post-norm normalise the embeddings"
        yield Obstacle("norm=post(embeddings=false)", why, "norm=post")
    rates = encoder.dropout
    plain = f"dropout=dropout({rates.hidden:g}, {rates.attention:g})"
    if rates.ffn:
        why = "the layouts have no dropout inside the feed-forward part"
        yield Obstacle(f"dropout.ffn={rates.ffn}", why, plain)
    if rates.last:
        yield Obstacle(f"dropout.last={rates.last}", "no layout has dropout at the end", plain)


def unequal(encoder: Encoder) -> Iterator[Obstacle]:
    """Layers of unequal widths."""
    for setting, widths in (
        ("heads", [layer.heads for layer in encoder.layers]),
        ("ffn", [layer.ffn for layer in encoder.layers]),
    ):
        if len(set(widths)) > 1:
            equal = f"{setting}={widths[0]}"
            yield Obstacle(f"{setting}={listed(widths)}", "in all layouts layers are equal", equal)


def unfilled(encoder: Encoder) -> Iterator[Obstacle]:
    """Heads that do not fill the hidden width."""
    first, hidden = encoder.layers[0], encoder.hidden
    if first.heads * first.head_dim != hidden:
        yield Obstacle(
            f"head_dim={first.head_dim}",
            f"in all layouts it is hidden / heads = {hidden} / {first.heads}",
            "" if hidden % first.heads else f"head_dim={hidden // first.heads}",
        )


def _with_segments(encoder: Encoder, predicts: bool) -> Iterator[Obstacle]:
    """Settings that the layouts with token types lack."""
    why = "only the XLM layout has it, and XLM has no token types"
    if not encoder.segments:
        return
    if encoder.languages:
        yield Obstacle("language_embeddings=true", why, "language_embeddings=false")
    if predicts and encoder.head.kind != "transform":
        yield Obstacle(f"head={encoder.head.kind}", why, "head=transform")


def counted_from_0(encoder: Encoder, title: str) -> Obstacle | None:
    """A position offset, for layouts that count positions from 0."""
    if not encoder.positions.offset:
        return None
    return Obstacle(
        f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
        f"the {title} layout counts positions from 0",
        from_0(encoder),
    )


def from_0(encoder: Encoder) -> str:
    """The same number of positions, counted from 0."""
    return f"positions={encoder.positions.rows - encoder.positions.offset}"


def always_gelu(candidate: Candidate, title: str) -> Obstacle | None:
    """A masked-LM head whose activation is not gelu, for layouts that always use gelu."""
    activation = candidate.encoder.head_activation
    if not candidate.predicts or activation == "gelu":
        return None
    return Obstacle(
        f"activation={activation}",
        f"the masked-LM head of the {title} layout always uses gelu",
        "activation=gelu",
    )


def listed(numbers: Collection[int]) -> str:
    """Numbers in the notation of specs."""
    return "[" + ", ".join(map(str, numbers)) + "]"
