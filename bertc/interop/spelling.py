"""Configurations whose layout has names of its own for what BertConfig says."""

from pathlib import Path
from typing import Any

from bertc.diagnostics import DataError
from bertc.interop.names import TITLES, LayoutName
from bertc.storage.json_file import shown

SPELLINGS: dict[LayoutName, dict[str, str]] = {
    "xlm": {
        "emb_dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "init_std": "initializer_range",
        "n_words": "vocab_size",
        "pad_index": "pad_token_id",
    },
    "xlnet": {
        "d_model": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "d_inner": "intermediate_size",
        "ff_activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "n_token": "vocab_size",
    },
}
"""A layout's own settings and those of BertConfig that mean the same."""

OTHERS: dict[LayoutName, tuple[str, ...]] = {
    "xlm": ("hidden_act", "intermediate_size", "type_vocab_size"),
    "xlnet": ("type_vocab_size", "max_position_embeddings", "attention_probs_dropout_prob"),
}
"""Settings of BertConfig that a layout does not have."""


def common_names(
    path: Path, layout: LayoutName, given: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings by the common names, and the names that the file has for them.

    Raises:
        DataError: if two that mean one thing differ, or one is of another layout.
    """
    settings: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        common = SPELLINGS[layout].get(name, name)
        if common in settings and settings[common] != value:
            raise DataError(
                f"{path}: {spelled[common]} = {shown(settings[common])}, {name} = {shown(value)}",
                help="they are one setting; remove one of them",
            )
        if name in OTHERS[layout] and value is not None:
            raise DataError(
                f"{path}: bertc does not know the setting {name} of an {TITLES[layout]} = "
                f"{shown(value)}",
                help="it may change what the network computes; remove it if it does not",
            )
        settings[common], spelled[common] = value, name
    if layout == "xlm":
        gelu, width = settings.pop("gelu_activation", True), settings.get("hidden_size", 2048)
        settings["hidden_act"] = ("gelu" if gelu else "relu") if isinstance(gelu, bool) else gelu
        settings["intermediate_size"] = 4 * width if isinstance(width, int) else width
        spelled["hidden_act"] = "gelu_activation"
    return settings, spelled
