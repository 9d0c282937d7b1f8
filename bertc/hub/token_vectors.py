"""Folders of token vectors and sparse ones, of PyLate and sentence-transformers 5 and 6.

Of token vectors PyLate's is written, and that of sentence-transformers 6 is read too.
"""

import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from bertc.base.storage.plain_file import shown
from bertc.ir.learning import TOKENS_HEAD, SparseVectors, TokenVectors
from bertc.ir.network.body import Body

MODEL_TYPES = ("ColBERT", "MultiVectorEncoder")
"""Their names in settings, of PyLate and of sentence-transformers 6."""
CHAINS = (("Transformer", "Dense"), ("Transformer", "Dense", "MultiVectorMask", "Normalize"))
DENSE, CLASS = "1_Dense", "pylate.models.Dense.Dense"
MAP_FILE = f"{DENSE}/model.safetensors"
MAP, MAP_THERE = f"heads.{TOKENS_HEAD}.0.weight", "linear.weight"
"""The name of the weights of the map, and that in its file."""
OF_POOLED = {
    "bias": (False,), "activation_function": ("torch.nn.modules.linear.Identity",),
    "use_residual": (False,), "module_input_name": ("sentence_embedding",),
    "module_output_name": (None, "sentence_embedding"),
}  # fmt: skip
"""Values that are computed of a map of pooled states."""
LENGTHS = ("max_seq_length", "query_length", "document_length", "query_expansion")
"""Settings of an encoder that say how long texts are."""
_STATES = ("token_embeddings",)
_SKIPPED: dict[str, tuple[Any, ...]] = {"skiplist_words": (None, [], [*string.punctuation])}
_ONLY: dict[str, Mapping[str, tuple[Any, ...]]] = {
    "Dense": {
        **OF_POOLED, "module_input_name": _STATES, "module_output_name": _STATES,
    },
    "MultiVectorMask": {
        **_SKIPPED, "skiplist_tasks": (None, ["document"]), "keep_only_token_ids": (None, []),
    },
    "Normalize": {"module_input_name": _STATES},
    "settings": {**_SKIPPED, "similarity_fn_name": (None, "MaxSim", "maxsim", "cosine", "dot")},
    "query_expansion": {"strategy": ("fixed",), "token": (None,)},
}  # fmt: skip
"""Values that are computed, of settings that matter; each other value is refused by name."""
_UNSAID = {
    "query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 32, "document_length": 180,
    "do_query_expansion": True, "attend_to_expansion_tokens": False, "skiplist_words": ["."],
}  # fmt: skip
"""Settings of PyLate that its folder does not say."""
SPARSE_CHAINS = (("MLMTransformer", "SpladePooling"), ("Transformer", "SpladePooling"))
SPARSE_POOLING = {"pooling_strategy": "max", "activation_function": "relu"}
SPARSE_SETTINGS = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
"""Settings of the weights that are computed, and of their folder."""
_LOGITS = {"text": {"method": "forward", "method_output_name": "logits"}}
OF_LOGITS = {"transformer_task": ("fill-mask",), "modality_config": (_LOGITS,)}
"""Settings of an encoder that say that its scores are read."""


def map_files(pooling: object, dense: Collection[int]) -> dict[str, str]:
    """The files of maps of tokens or of pooled states, by the names of weights."""
    if isinstance(pooling, TokenVectors):
        return {MAP: MAP_FILE}
    names = (f"heads.{TOKENS_HEAD}.{number}.weight" for number in range(len(dense)))
    return {name: f"{n}_Dense/model.safetensors" for n, name in enumerate(names, 2)}


def widths_of(maps: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], str]:
    """Widths that maps of pooled states have, and the first setting that is not computed."""
    widths = [settings.get("out_features") for settings in maps]
    unknown = (f"out_features = {shown(width)}" for width in widths if type(width) is not int)
    refused = next(filter(None, (*(refusal(m, OF_POOLED) for m in maps), *unknown)), "")
    return tuple(width for width in widths if isinstance(width, int)), refused


def dense_settings(read: int, width: int) -> dict[str, Any]:
    """Settings of a linear map, as sentence-transformers and PyLate write them."""
    plain = {name: OF_POOLED[name][0] for name in ("bias", "activation_function", "use_residual")}
    return {"in_features": read, "out_features": width, **plain}


def of_tokens(
    settings: Mapping[str, Any], encoder: Mapping[str, Any], modules: Mapping[str, Any]
) -> tuple[str, TokenVectors | None, Any]:
    """The obstacle to the vectors of a folder, if any; they, and the longest text."""
    filled = encoder.get("query_expansion") or {}
    parts = {**modules, "settings": settings, "query_expansion": filled}
    no_type = "a module Dense" * (settings.get("model_type") not in MODEL_TYPES)
    obstacles = (no_type, *(refusal(parts[name], _ONLY[name]) for name in parts))
    if obstacle := next(filter(None, obstacles), ""):
        return obstacle, None, 0
    if settings["model_type"] != "ColBERT":
        longest = encoder.get("max_seq_length")
        settings = {
            "query_prefix": "",  # its prompts have them
            "document_prefix": "",
            "query_length": filled.get("length") or encoder.get("query_length") or longest or 512,
            "document_length": encoder.get("document_length") or longest or 0,
            "do_query_expansion": bool(filled),
            "attend_to_expansion_tokens": filled.get("attend"),
            "skiplist_words": modules.get("MultiVectorMask", {}).get("skiplist_words") or [],
        }
    known = _UNSAID | {name: value for name, value in settings.items() if value is not None}
    fill = "attended" if known["attend_to_expansion_tokens"] else "unattended"
    values = {
        "width": modules["Dense"].get("out_features"), "query": known["query_length"],
        "fill": fill if known["do_query_expansion"] else "none",
        "skip": "punctuation" if known["skiplist_words"] else "none",
        "query_mark": known["query_prefix"], "passage_mark": known["document_prefix"],
    }  # fmt: skip
    try:
        return "", TokenVectors.model_validate(values), known["document_length"]
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        return f"token vectors with {name} = {shown(values[name])}", None, 0


def of_vocabulary(
    settings: Mapping[str, Any], encoder: Mapping[str, Any], modules: Mapping[str, Any]
) -> tuple[str, SparseVectors | None, Any]:
    """The obstacle to the vectors of a folder, if any; they, and the longest text."""
    task = {"transformer_task": encoder.get("transformer_task", "fill-mask")}
    only = {**SPARSE_POOLING, **SPARSE_SETTINGS, "transformer_task": "fill-mask"}
    known = {name: (value, None) for name, value in {**only, "max_active_dims": None}.items()}
    obstacle = refusal({**modules["SpladePooling"], **settings, **task}, known)
    return obstacle, SparseVectors(), encoder.get("max_seq_length")


def pylate_settings(
    vectors: TokenVectors, longest: int, encoder: Body
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the linear map, and of the whole folder, as PyLate writes them."""
    settings = {
        "model_type": "ColBERT", "similarity_fn_name": "MaxSim",
        "query_prefix": vectors.query_mark, "document_prefix": vectors.passage_mark,
        "query_length": vectors.query, "document_length": longest,
        "do_query_expansion": vectors.fill != "none",
        "attend_to_expansion_tokens": vectors.fill == "attended",
        "skiplist_words": [*string.punctuation] if vectors.skip == "punctuation" else [],
    }  # fmt: skip
    return dense_settings(encoder.hidden, vectors.width), settings


def refusal(settings: Mapping[str, Any], only: Mapping[str, tuple[Any, ...]]) -> str:
    """The first setting that has none of the values that change nothing."""
    for name, value in settings.items():
        if value not in only.get(name, only.get("*", (value,))):
            return f"{name} = {shown(value)}"
    return ""
