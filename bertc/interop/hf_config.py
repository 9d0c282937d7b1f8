"""Writing ``config.json`` in the layout of a family."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertc.interop import families
from bertc.interop.config import KEPT, MAX_BYTES
from bertc.interop.families.family import Family, HfClass, Tokens
from bertc.ir.network.encoder import Encoder
from bertc.storage.json_file import read_json


def hf_config(
    family: Family[Any], encoder: Encoder, tokens: Tokens, chosen: HfClass
) -> dict[str, Any]:
    """The settings of ``config.json``, in order."""
    return {
        "architectures": [chosen.name],
        "model_type": family.model_type,
        "vocab_size": encoder.vocab_size,
        **family.config_of(encoder, tokens),
        **chosen.settings,
    }


def kept_settings(path: Path) -> dict[str, Any]:
    """Settings of a ``config.json`` that an export of its model copies.

    Raises:
        MissingInputError, DataError: if the file does not exist, or is broken.
    """
    kept = KEPT.union(*(family.config.kept for family in families.FAMILIES))
    return {name: value for name, value in read_json(path, MAX_BYTES).items() if name in kept}


def as_it_came(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Settings to copy unchanged: an activation may have two names, a token two roles."""
    spellings = (each.config.spelling for each in families.FAMILIES)
    names = {
        theirs for one in spellings for theirs, common in one.items() if common == "hidden_act"
    }
    came_so = ("bos_token_id", "eos_token_id", "hidden_act", *sorted(names))
    return {name: kept[name] for name in came_so if kept.get(name) is not None}
