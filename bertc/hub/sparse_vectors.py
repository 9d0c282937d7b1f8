"""Folders of sparse vectors: SparseEncoder's, of sentence-transformers 5 and 6."""

from collections.abc import Mapping
from typing import Any

from bertc.hub.token_vectors import refusal
from bertc.ir.learning import SparseVectors

CHAINS = (("MLMTransformer", "SpladePooling"), ("Transformer", "SpladePooling"))
PLACE = "1_SpladePooling"
POOLING = {"pooling_strategy": "max", "activation_function": "relu"}
SETTINGS = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
"""Settings of the weights that are computed, and of their folder."""
_LOGITS = {"text": {"method": "forward", "method_output_name": "logits"}}
OF_LOGITS = {"transformer_task": ("fill-mask",), "modality_config": (_LOGITS,)}
"""Settings of an encoder that say that its scores are read."""


def of_vocabulary(
    settings: Mapping[str, Any], encoder: Mapping[str, Any], modules: Mapping[str, Any]
) -> tuple[str, SparseVectors | None, Any]:
    """The obstacle to the vectors of a folder, if any; they, and the longest text."""
    task = {"transformer_task": encoder.get("transformer_task", "fill-mask")}
    only = {**POOLING, **SETTINGS, "transformer_task": "fill-mask", "max_active_dims": None}
    known = {name: (value, None) for name, value in only.items()}
    obstacle = refusal({**modules["SpladePooling"], **settings, **task}, known)
    return obstacle, SparseVectors(), encoder.get("max_seq_length")
