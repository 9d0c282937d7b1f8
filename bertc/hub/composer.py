"""Checkpoints of Composer: those in which ModernBERT, Ettin and mmBERT were trained."""

import datetime
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.torch_version import TorchVersion

from bertc.base.storage.paths import is_folder

_BATCH = re.compile(r"ba(\d+)")
_WRAPPED = re.compile(r"^(module|model)\.|_orig_mod\.|_fsdp_wrapped_module\.")
_OURS = re.compile(r"^bert\.(encoder\.(?=layers\.))?")
"""In AnswerDotAI/ModernBERT src/bert_layers/model.py; ``model.`` in transformers."""
_OF_FLEX = "bert.encoder.layers.0.attn.Wqkv.weight"


def checkpoint_in(folder: Path) -> Path | None:
    """The checkpoint of a folder after most batches; None if it has none."""
    files = sorted(folder.glob("*-rank0.pt")) if is_folder(folder) else []
    return max(files, key=lambda file: int((_BATCH.findall(file.name) or [-1])[-1]), default=None)


def known_types() -> AbstractContextManager[None]:
    """Allow the types that Composer saves beside tensors: times, versions, states of numpy."""
    dates = [getattr(datetime, name) for name in ("timedelta", "datetime", "date", "timezone")]
    arrays: list[Any] = [np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    make: Any = np.empty(0).__reduce__()[0]
    named = [(make, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    return torch.serialization.safe_globals([*dates, TorchVersion, *arrays, *named])


def weights_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights of a checkpoint by the names of today's ModernBERT, or as they are."""
    if not isinstance(state := content.get("state"), Mapping):
        return content
    if not isinstance(model := state.get("model"), Mapping):
        return content
    plain = {_WRAPPED.sub("", str(name)): tensor for name, tensor in model.items()}
    if _OF_FLEX not in plain:
        return plain
    return {_OURS.sub("model.", name): tensor for name, tensor in plain.items()}


def progress_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """A line on how far the training was, where a checkpoint says it."""
    state = content.get("state")
    time = state.get("timestamp") if isinstance(state, Mapping) else None
    time = time.get("Timestamp", time) if isinstance(time, Mapping) else {}
    counts = [(name, time.get(unit)) for unit, name in (("batch", "batches"), ("token", "tokens"))]
    said = [f"{count:,} {name}" for name, count in counts if isinstance(count, int) and count]
    return (f"its training was at {' and '.join(said)}; the moments stay behind",) if said else ()
