"""The name of every weight in the Hugging Face layouts, as data (transformers 5.23).

A weight is called ``<module>.weight`` or ``<module>.bias`` on both sides, so the tables name
modules. ``{n}`` is the layer, but in ALBERT's layout the group. Keys of the
encoder are written without the prefix (``bert.``) that classes with a head put before them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bertc.ir.network.encoder import Encoder

LayoutName = Literal["bert", "roberta", "albert", "xlm", "electra", "xlnet"]
TITLES: dict[LayoutName, str] = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "xlm": "XLM",
    "electra": "ELECTRA",
    "xlnet": "XLNet",
}
PREFIX: dict[LayoutName, str] = {
    "bert": "bert",
    "roberta": "roberta",
    "albert": "albert",
    "xlm": "transformer",
    "electra": "electra",
    "xlnet": "transformer",
}
"""What the classes with heads call their encoder."""

_EMBEDDINGS = {
    "encoder.embeddings.token": "embeddings.word_embeddings",
    "encoder.embeddings.position": "embeddings.position_embeddings",
    "encoder.embeddings.segment": "embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "embeddings.LayerNorm",
}
_BERT_BODY = {
    **_EMBEDDINGS,
    "encoder.attention.{n}.query": "encoder.layer.{n}.attention.self.query",
    "encoder.attention.{n}.key": "encoder.layer.{n}.attention.self.key",
    "encoder.attention.{n}.value": "encoder.layer.{n}.attention.self.value",
    "encoder.attention.{n}.output": "encoder.layer.{n}.attention.output.dense",
    "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.output.LayerNorm",
    "encoder.ffn.{n}.inner": "encoder.layer.{n}.intermediate.dense",
    "encoder.ffn.{n}.outer": "encoder.layer.{n}.output.dense",
    "encoder.ffn.{n}.norm": "encoder.layer.{n}.output.LayerNorm",
}
_POOLER = {"encoder.pooler": "pooler.dense"}
_ALBERT_LAYER = "encoder.albert_layer_groups.{n}.albert_layers.0"
_ALBERT_BODY = {
    **_EMBEDDINGS,
    "encoder.embeddings.project": "encoder.embedding_hidden_mapping_in",
    "encoder.attention.{n}.query": f"{_ALBERT_LAYER}.attention.query",
    "encoder.attention.{n}.key": f"{_ALBERT_LAYER}.attention.key",
    "encoder.attention.{n}.value": f"{_ALBERT_LAYER}.attention.value",
    "encoder.attention.{n}.output": f"{_ALBERT_LAYER}.attention.dense",
    "encoder.attention.{n}.norm": f"{_ALBERT_LAYER}.attention.LayerNorm",
    "encoder.ffn.{n}.inner": f"{_ALBERT_LAYER}.ffn",
    "encoder.ffn.{n}.outer": f"{_ALBERT_LAYER}.ffn_output",
    "encoder.ffn.{n}.norm": f"{_ALBERT_LAYER}.full_layer_layer_norm",
    "encoder.pooler": "pooler",
}
_XLM_BODY = {
    "encoder.embeddings.token": "embeddings",
    "encoder.embeddings.position": "position_embeddings",
    "encoder.embeddings.language": "lang_embeddings",
    "encoder.embeddings.norm": "layer_norm_emb",
    "encoder.attention.{n}.query": "attentions.{n}.q_lin",
    "encoder.attention.{n}.key": "attentions.{n}.k_lin",
    "encoder.attention.{n}.value": "attentions.{n}.v_lin",
    "encoder.attention.{n}.output": "attentions.{n}.out_lin",
    "encoder.attention.{n}.norm": "layer_norm1.{n}",
    "encoder.ffn.{n}.inner": "ffns.{n}.lin1",
    "encoder.ffn.{n}.outer": "ffns.{n}.lin2",
    "encoder.ffn.{n}.norm": "layer_norm2.{n}",
}

MODULES: dict[LayoutName, dict[str, str]] = {
    "bert": {
        **_BERT_BODY,
        **_POOLER,
        "heads.mlm.dense": "cls.predictions.transform.dense",
        "heads.mlm.norm": "cls.predictions.transform.LayerNorm",
        "heads.mlm": "cls.predictions",
        "heads.nsp": "cls.seq_relationship",
    },
    "roberta": {
        **_BERT_BODY,
        **_POOLER,
        "heads.mlm.dense": "lm_head.dense",
        "heads.mlm.norm": "lm_head.layer_norm",
        "heads.mlm": "lm_head",
    },
    "albert": {
        **_ALBERT_BODY,
        "heads.mlm.dense": "predictions.dense",
        "heads.mlm.norm": "predictions.LayerNorm",
        "heads.mlm": "predictions",
        "heads.sop": "sop_classifier.classifier",
    },
    "xlm": {**_XLM_BODY, "heads.mlm": "pred_layer.proj"},
    "electra": {
        **_BERT_BODY,
        "encoder.embeddings.project": "embeddings_project",
        "heads.mlm.dense": "generator_predictions.dense",
        "heads.mlm.norm": "generator_predictions.LayerNorm",
        "heads.mlm": "generator_lm_head",
        "heads.rtd.dense": "discriminator_predictions.dense",
        "heads.rtd": "discriminator_predictions.dense_prediction",
    },
    "xlnet": {
        "encoder.embeddings.token": "word_embedding",
        "encoder.attention.{n}.norm": "layer.{n}.rel_attn.layer_norm",
        "encoder.ffn.{n}.inner": "layer.{n}.ff.layer_1",
        "encoder.ffn.{n}.outer": "layer.{n}.ff.layer_2",
        "encoder.ffn.{n}.norm": "layer.{n}.ff.layer_norm",
        "heads.plm": "lm_loss",
    },
}
"""bertc's module and the layout's. Labels agree: 0 true, in order or original, 1 not."""

BARE: dict[LayoutName, dict[str, str]] = {
    "xlnet": {
        "encoder.embeddings.unseen": "mask_emb",
        "encoder.attention.{n}.query.weight": "layer.{n}.rel_attn.q",
        "encoder.attention.{n}.key.weight": "layer.{n}.rel_attn.k",
        "encoder.attention.{n}.value.weight": "layer.{n}.rel_attn.v",
        "encoder.attention.{n}.distance.weight": "layer.{n}.rel_attn.r",
        "encoder.attention.{n}.output.weight": "layer.{n}.rel_attn.o",
        "encoder.attention.{n}.content_bias": "layer.{n}.rel_attn.r_w_bias",
        "encoder.attention.{n}.distance_bias": "layer.{n}.rel_attn.r_r_bias",
        "encoder.attention.{n}.segment_bias": "layer.{n}.rel_attn.r_s_bias",
        "encoder.attention.{n}.segment": "layer.{n}.rel_attn.seg_embed",
    },
}
"""Weights that are no module's in a layout, by their whole names."""

COPIES: dict[LayoutName, dict[str, str]] = {
    "bert": {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "roberta": {
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    "albert": {
        "predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    "xlm": {"pred_layer.proj.weight": "embeddings.weight"},
    "electra": {"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
    "xlnet": {"lm_loss.weight": "word_embedding.weight"},
}
"""Tied tensors that a file may hold a second time, and the key they are copies of."""

UNREAD: dict[LayoutName, frozenset[str]] = {
    "roberta": frozenset({"pooler.dense.weight", "pooler.dense.bias"}),
    "xlnet": frozenset({"mask_emb"}),
}
"""Weights that files of tasks carry along, and no task reads."""

BUFFERS = frozenset({"embeddings.position_ids", "embeddings.token_type_ids", "position_ids"})
"""Counters that older files carry along; no weights, never read."""


@dataclass(frozen=True)
class HfClass:
    """A class of transformers and the parts beyond the body that its folders hold.

    ``named`` are modules that it calls otherwise than the layout, and without a prefix.
    ``settings`` are those of its own in ``config.json``.
    """

    name: str
    parts: frozenset[str]
    named: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def saying(self, settings: Mapping[str, Any]) -> "HfClass":
        """The same with these settings."""
        return replace(self, settings=settings)

    @property
    def bare(self) -> bool:
        """Whether its keys stand without the layout's prefix."""
        return self.parts <= {"pooler"}


def _hf_class(name: str, *parts: str) -> HfClass:
    return HfClass(name, frozenset(parts))


CLASSES: dict[LayoutName, tuple[HfClass, ...]] = {
    "bert": (
        _hf_class("BertForPreTraining", "pooler", "mlm", "nsp"),
        _hf_class("BertForMaskedLM", "mlm"),
        _hf_class("BertForNextSentencePrediction", "pooler", "nsp"),
        _hf_class("BertModel", "pooler"),
    ),
    "roberta": (_hf_class("RobertaForMaskedLM", "mlm"), _hf_class("RobertaModel", "pooler")),
    "albert": (
        _hf_class("AlbertForPreTraining", "pooler", "mlm", "sop"),
        _hf_class("AlbertForMaskedLM", "mlm"),
        _hf_class("AlbertModel", "pooler"),
    ),
    "xlm": (_hf_class("XLMWithLMHeadModel", "mlm"), _hf_class("XLMModel")),
    "electra": (
        _hf_class("ElectraForPreTraining", "rtd"),
        _hf_class("ElectraForMaskedLM", "mlm"),
        _hf_class("ElectraModel"),
    ),
    "xlnet": (_hf_class("XLNetLMHeadModel", "plm"), _hf_class("XLNetModel")),
}
"""Classes by what they hold, the fullest first."""


def part_of(name: str) -> str:
    """The part of a bertc weight: ``pooler``, a head such as ``mlm``, or ``body``."""
    first, second, *_ = name.split(".")
    return second if first == "heads" or second == "pooler" else "body"


def parts_of(names: Iterable[str]) -> frozenset[str]:
    """The pooler and heads among bertc weight names."""
    return frozenset(part_of(name) for name in names) - {"body"}


def hf_class(layout: LayoutName, parts: frozenset[str]) -> HfClass | None:
    """The fullest class of a layout that needs no part which is missing."""
    return next((each for each in CLASSES[layout] if each.parts <= parts), None)


def groups(encoder: Encoder) -> dict[int, int]:
    """The layers that own weights, numbered in order: ALBERT's groups."""
    return {owner: group for group, owner in enumerate(sorted(set(encoder.attention_owner)))}


def keys(
    layout: LayoutName, encoder: Encoder, names: Iterable[str], named: Mapping[str, str]
) -> dict[str, str]:
    """bertc weight names and their keys, unprefixed; names without a place are left out.

    ``named`` are modules with another name than the layout's.
    """
    numbers = groups(encoder) if layout == "albert" else {n: n for n in range(len(encoder.layers))}
    modules = {**MODULES[layout], **named}
    placed = {name: _key(BARE.get(layout, {}), modules, numbers, name) for name in names}
    return {name: key for name, key in placed.items() if key is not None}


def _key(
    bare: Mapping[str, str], modules: Mapping[str, str], numbers: Mapping[int, int], name: str
) -> str | None:
    number = re.search(r"\.(\d+)\.", name)
    pattern = name.replace(f".{number[1]}.", ".{n}.", 1) if number else name
    module, _, leaf = pattern.rpartition(".")
    found = bare.get(pattern)
    if found is None and module in modules:
        found = f"{modules[module]}.{leaf}"
    return found and found.format(n=numbers[int(number[1])] if number else "")


def prefixed(layout: LayoutName, chosen: HfClass, name: str, key: str) -> str:
    """The key of a weight in the folder of a class: the encoder of a model with heads is named."""
    own = not name.startswith("encoder.") or name.rpartition(".")[0] in chosen.named
    return key if own or chosen.bare else f"{PREFIX[layout]}.{key}"


def plain(layout: LayoutName, key: str) -> str:
    """A key of any file in today's form: no prefix, and norms of TensorFlow's time renamed."""
    key = key.removeprefix(f"{PREFIX[layout]}.")
    module, _, leaf = key.rpartition(".")
    if module.endswith("LayerNorm") or module.endswith("layer_norm"):
        leaf = {"gamma": "weight", "beta": "bias"}.get(leaf, leaf)
    return f"{module}.{leaf}" if module else leaf
