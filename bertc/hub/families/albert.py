"""ALBERT's Hugging Face layout: layers shared in groups, factorised embeddings."""

from typing import Any, Literal

from bertc.hub.families import bert, config
from bertc.hub.families.family import Candidate, Family, TaskHeads, hf_class, weight_numbers
from bertc.ir.base import Probability, Width
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import ShareMap, scheme_of
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import Unigram

LAYER = "encoder.albert_layer_groups.{n}.albert_layers.0"


class HfAlbert(config.HfConfig):
    """AlbertConfig; defaults are those of the largest release."""

    only = {**config.ABSOLUTE, "inner_group_num": config.Single(1, "a group has several layers")}

    model_type: Literal["albert"] = "albert"
    vocab_size: config.VocabularySize = 30_000
    embedding_size: Width = 128
    hidden_size: Width = 4096
    num_hidden_groups: config.Layers = 1
    num_attention_heads: Heads = 64
    intermediate_size: Width = 16_384
    hidden_act: config.HfActivation = "gelu_new"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network; groups are a number if one gives them, else a map."""
        groups = _groups(self.num_hidden_layers, self.num_hidden_groups)
        owners = tuple(groups.index(group) for group in groups)
        scheme = scheme_of(owners, owners)
        share = ShareMap(attention=owners) if isinstance(scheme, ShareMap) else scheme
        return super().settings() | {"embedding": self.embedding_size, "share": share}

    @classmethod
    def values(cls, encoder: Encoder, tokens: config.Tokens) -> dict[str, Any]:
        numbers, layers = weight_numbers(encoder), len(encoder.layers)
        groups = [numbers[owner] for owner in encoder.attention_owner]
        narrower = min(128, encoder.hidden // 2)  # the usual width, where it is one
        width = narrower if encoder.embedding == encoder.hidden else encoder.embedding
        return {
            **super().values(encoder, tokens), "embedding_size": width,
            "num_hidden_groups": len(numbers) if groups == _groups(layers, len(numbers)) else 1,
            "inner_group_num": 1, **config.ends(tokens),
        }  # fmt: skip


def _groups(layers: int, num_groups: int) -> list[int]:
    """The group of each layer, as AlbertTransformer computes it in floating point.

    For some pairs, (18, 14) the first, this differs from ``layer * num_groups // layers``.
    """
    return [int(layer / (layers / num_groups)) for layer in range(layers)]


def _claims(candidate: Candidate) -> bool:
    """True if a layer uses another layer's weights, or tables are narrower."""
    encoder, unshared = candidate.encoder, tuple(range(candidate.encoder.depth))
    shares = not encoder.attention_owner == encoder.ffn_owner == unshared
    return shares or encoder.embedding != encoder.hidden


ALBERT = Family(
    title="ALBERT",
    config=HfAlbert,
    prefix="albert",
    names={
        **bert.EMBEDDINGS,
        "encoder.embeddings.project": "encoder.embedding_hidden_mapping_in",
        **bert.attention_keys(f"{LAYER}.attention.{{part}}"),
        "encoder.attention.{n}.output": f"{LAYER}.attention.dense",
        "encoder.attention.{n}.norm": f"{LAYER}.attention.LayerNorm",
        "encoder.ffn.{n}.inner": f"{LAYER}.ffn",
        "encoder.ffn.{n}.outer": f"{LAYER}.ffn_output",
        "encoder.ffn.{n}.norm": f"{LAYER}.full_layer_layer_norm",
        "encoder.pooler": "pooler",
        **bert.mlm_keys("predictions", "predictions"),
        "heads.sop": "sop_classifier.classifier",
    },
    copies=bert.tied("predictions"),
    classes=(
        hf_class("AlbertForPreTraining", "pooler", "mlm", "sop"),
        hf_class("AlbertForMaskedLM", "mlm"),
        hf_class("AlbertModel", "pooler"),
    ),
    labels={"mlm": "labels", "sop": "sentence_order_label"},
    tasks=TaskHeads(bert.pooled_classes("Albert"), dropout="classifier_dropout_prob", default=0.1),
    claims=_claims,
    recipe="albert",
    vocabulary=Unigram,
)
