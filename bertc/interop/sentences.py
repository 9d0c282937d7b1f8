"""Folders of sentence-transformers: a Hugging Face folder, with how its states become a vector."""

import json
from pathlib import Path
from typing import Any

from bertc.diagnostics import UsageError
from bertc.storage import durable

MODULES = "sentence_transformers.models"
LONGEST_TEXT = 1 << 14
"""Maximum tokens of a text if positions set no limit."""
POOLING_FOLDER = "1_Pooling"
MODES = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
"""Names of poolings there, of those that ``bertc embed`` has."""


def refuse_other_poolings(pooling: str) -> None:
    """Refuse a pooling that sentence-transformers has no module for.

    Raises:
        UsageError: naming those that it has.
    """
    if pooling not in MODES:
        raise UsageError(
            f"--pooling {pooling}: sentence-transformers has no such pooling of one layer",
            help=f"one of {', '.join(MODES)}",
        )


def add_pooling(
    folder: Path, pooling: str, width: int, longest: int, *, pooler: bool = True
) -> None:
    """Make a Hugging Face folder one that ``SentenceTransformer`` loads, in its files of 2.0 on.

    ``width`` is that of a hidden state, ``longest`` the most tokens of a text. Without a ``pooler``
    in the folder the encoder is made without one, or its weights would be told to be missing.

    Raises:
        UsageError: as ``refuse_other_poolings``.
        CannotWriteError: if the files cannot be written.
    """
    refuse_other_poolings(pooling)
    modes = {f"pooling_mode_{name}": kind == pooling for kind, name in MODES.items()}
    modules = [("", f"{MODULES}.Transformer"), (POOLING_FOLDER, f"{MODULES}.Pooling")]
    _write(folder / POOLING_FOLDER / "config.json", {"word_embedding_dimension": width, **modes})
    without = {} if pooler else {"model_args": {"add_pooling_layer": False}}
    _write(
        folder / "sentence_bert_config.json",
        {"max_seq_length": longest, "do_lower_case": False, **without},
    )
    _write(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": kind}
            for number, (path, kind) in enumerate(modules)
        ],
    )


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    durable.replace(path, (json.dumps(value, indent=2) + "\n").encode())
