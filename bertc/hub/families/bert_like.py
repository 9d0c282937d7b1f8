"""Data and functions shared by families of encoders with position tables and post-norm.

Each family takes what it shares from here, by name.
"""

from typing import Any

from bertc.hub.families.config import ACTIVATIONS, MEANING, HfConfig
from bertc.hub.families.family import TaskClass, Tokens
from bertc.ir.base import Normal
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import TransformHead
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import PostNorm
from bertc.ir.network.positions import LearnedPositions, TablePositions
from bertc.ir.network.sharing import ShareNone

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
USUAL_ROWS = 512


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
        "max_position_embeddings": same_rows(encoder),
        "type_vocab_size": encoder.segments,
        "initializer_range": init_std(encoder),
        "layer_norm_eps": encoder.norm.eps,
        "pad_token_id": tokens.pad,
        **ENDING,
    }


def same_rows(encoder: Encoder, first: int = 0) -> int:
    """Rows of a table with as many positions, the first one at this row."""
    positions = encoder.positions
    known = isinstance(positions, TablePositions)
    return positions.rows - positions.offset + first if known else USUAL_ROWS


def ends(tokens: Tokens) -> dict[str, int | None]:
    """Tokens before and after a text; those of a row if the tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }


def init_std(encoder: Encoder) -> float:
    """Standard deviation for initialising new heads; bertc's default if widths decide it."""
    return 0.02 if encoder.initializer.kind == "fan-in" else encoder.initializer.std
