"""The ``config.json`` of a network in the layouts of transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from bertc.interop.layout import ACTIVATIONS
from bertc.interop.names import HfClass, LayoutName, groups
from bertc.interop.xlnet import xlnet_config
from bertc.ir.network.encoder import Encoder

CAME_SO = ("bos_token_id", "eos_token_id", "hidden_act", "ff_activation")
"""Settings that are passed on as they came: a function may have two names, a token two roles."""


class Vocabulary(Protocol):
    """What an export needs to know of a vocabulary: some ids, and how to save it."""

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        ...

    @property
    def cls(self) -> int | None:
        """Id of the token that stands for a whole row, if known."""
        ...

    @property
    def sep(self) -> int | None:
        """Id of the token that ends a segment, if known."""
        ...

    @property
    def bos(self) -> int | None:
        """Id of the token that its configuration calls the first, if it names one."""
        ...

    @property
    def eos(self) -> int | None:
        """Id of the token that its configuration calls the last, if it names one."""
        ...

    def save(self, folder: Path) -> object:
        """Write the tokenizer's files into a folder."""
        ...


def hf_config(
    encoder: Encoder, vocabulary: Vocabulary, name: LayoutName, chosen: HfClass
) -> dict[str, Any]:
    """The settings of ``config.json``."""
    match name:
        case "xlnet":
            config = _xlnet_config(encoder, vocabulary, chosen)
        case "xlm":
            config = _xlm_config(encoder, vocabulary, chosen)
        case _:
            config = _bert_config(encoder, vocabulary, name, chosen)
    return {**config, **chosen.settings}


def _bert_config(
    encoder: Encoder, vocabulary: Vocabulary, name: LayoutName, chosen: HfClass
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": [chosen.name],
        "model_type": name,
        "vocab_size": encoder.vocab_size,
        "hidden_size": encoder.hidden,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": encoder.layers[0].heads,
        "intermediate_size": encoder.layers[0].ffn,
        "hidden_act": ACTIVATIONS[encoder.ffn.activation],
        "hidden_dropout_prob": encoder.dropout.hidden,
        "attention_probs_dropout_prob": encoder.dropout.attention,
        "max_position_embeddings": encoder.positions.rows,
        "type_vocab_size": encoder.segments,
        "initializer_range": _std(encoder),
        "layer_norm_eps": encoder.norm.eps,
        "pad_token_id": vocabulary.pad,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if name in ("albert", "electra"):
        config["embedding_size"] = encoder.embedding
    if name == "albert":
        config["num_hidden_groups"] = len(groups(encoder))
        config["inner_group_num"] = 1
    if name in ("roberta", "albert"):
        config |= _ends(vocabulary)
    return config


def _ends(vocabulary: Vocabulary) -> dict[str, int | None]:
    """The tokens before and after a text; those of every row where a tokenizer names no others."""
    return {
        "bos_token_id": vocabulary.cls if vocabulary.bos is None else vocabulary.bos,
        "eos_token_id": vocabulary.sep if vocabulary.eos is None else vocabulary.eos,
    }


def _xlnet_config(encoder: Encoder, vocabulary: Vocabulary, chosen: HfClass) -> dict[str, Any]:
    return {
        "architectures": [chosen.name],
        "model_type": "xlnet",
        "vocab_size": encoder.vocab_size,
        **xlnet_config(encoder, vocabulary.pad),
        "ff_activation": ACTIVATIONS[encoder.ffn.activation],
        "initializer_range": _std(encoder),
        "layer_norm_eps": encoder.norm.eps,
        **_ends(vocabulary),
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _xlm_config(encoder: Encoder, vocabulary: Vocabulary, chosen: HfClass) -> dict[str, Any]:
    """XLMConfig names everything in its own way."""
    config: dict[str, Any] = {
        "architectures": [chosen.name],
        "model_type": "xlm",
        "vocab_size": encoder.vocab_size,
        "emb_dim": encoder.hidden,
        "n_layers": len(encoder.layers),
        "n_heads": encoder.layers[0].heads,
        "gelu_activation": encoder.ffn.activation == "gelu",
        "dropout": encoder.dropout.hidden,
        "attention_dropout": encoder.dropout.attention,
        "max_position_embeddings": encoder.positions.rows,
        "n_langs": max(1, len(encoder.languages)),
        "use_lang_emb": bool(encoder.languages),
        "init_std": _std(encoder),
        "embed_init_std": encoder.hidden**-0.5,
        "layer_norm_eps": encoder.norm.eps,
        "pad_token_id": vocabulary.pad,
        **_ends(vocabulary),
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if encoder.languages:
        config["id2lang"] = {str(n): name for n, name in enumerate(encoder.languages)}
        config["lang2id"] = {name: n for n, name in enumerate(encoder.languages)}
    return config


def _std(encoder: Encoder) -> float:
    """What the classes draw new heads with; a choice of bertc's where widths decide."""
    return 0.02 if encoder.initializer.kind == "fan-in" else encoder.initializer.std


def as_it_came(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a folder whose own values go out again."""
    return {name: kept[name] for name in CAME_SO if kept.get(name) is not None}
