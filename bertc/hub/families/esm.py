"""ESM's layout (ESM-2, ESM-1b, Nucleotide Transformer), and ESM C's, of other blocks and names."""

from collections.abc import Collection
from typing import Any, Literal, Self

import numpy as np

from bertc.hub.families import bert, config, family
from bertc.hub.families.decoders import QUERY_KEY
from bertc.hub.families.eurobert import BODY
from bertc.hub.families.roberta import HfRoberta
from bertc.hub.families.rotary_like import HfTurned
from bertc.ir.base import Width
from bertc.ir.network import layer, norm
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import TransformHead
from bertc.ir.network.positions import RotaryPositions, Theta
from bertc.ir.network.residual import PlainResidual
from bertc.ir.network.table import WholeTable
from bertc.ir.vocabulary import Words


class HfEsm(HfRoberta):
    """EsmConfig; the ``rates`` of rotary angles are buffers, of ESM-2 in the precision of fp16."""

    missing = frozenset({"type_vocab_size", "hidden_act", "rates"})
    ignored = frozenset({"esmfold_config", "vocab_list", "head_dim"})  # no class sets the last
    only = {"is_folding_model": config.Single(False, "it folds proteins")}

    model_type: Literal["esm"] = "esm"  # type: ignore[assignment]
    vocab_size: config.VocabularySize
    pad_token_id: config.PadId | None = None  # type: ignore[assignment]
    mask_token_id: config.PadId | None = None
    max_position_embeddings: Width = 1026
    type_vocab_size: Literal[0] = 0
    position_embedding_type: Literal["absolute", "rotary"] = "absolute"
    rope_theta: Theta = 10_000.0
    rates: Literal["fp32", "fp16"] = "fp32"
    emb_layer_norm_before: bool | None = None
    token_dropout: bool = False
    tie_word_embeddings: bool = True

    @property
    def offset(self) -> int:
        return 0 if self.position_embedding_type == "rotary" else (self.pad_token_id or 0) + 1

    def turned_at(self, rates: Collection[float]) -> Self:
        rounded = bool(rates) and all(float(np.float16(rate)) == rate for rate in rates)
        return self.model_copy(update={"rates": "fp16" if rounded else "fp32"})

    @classmethod
    def again(cls, encoder: Encoder, tokens: config.Tokens) -> Self:
        rates = getattr(encoder.positions, "rates", "fp32")
        return super().again(encoder, tokens).model_copy(update={"rates": rates})

    def settings(self) -> dict[str, Any]:
        turned = RotaryPositions(theta=self.rope_theta, rates=self.rates)
        dropped = self.mask_token_id if self.token_dropout else None
        before = bool(self.emb_layer_norm_before)
        return {
            **super().settings(), **({} if self.offset else {"positions": turned}),
            "norm": norm.PreNorm(eps=self.layer_norm_eps, embeddings=before),
            "table": WholeTable(dropped=-1 if dropped is None else dropped),
            "head": TransformHead(tied=self.tie_word_embeddings),
        }  # fmt: skip

    @classmethod
    def values(cls, encoder: Encoder, tokens: config.Tokens) -> dict[str, Any]:
        theta, dropped = getattr(encoder.positions, "theta", None), encoder.table.dropped
        return {
            **super().values(encoder, tokens), "vocab_size": encoder.vocab_size,
            "position_embedding_type": "rotary" if theta else "absolute",
            **({"rope_theta": theta} if theta else {}),
            "emb_layer_norm_before": encoder.norm.embeddings, "token_dropout": dropped >= 0,
            **({"mask_token_id": dropped} if dropped >= 0 else {}),
            "tie_word_embeddings": encoder.head.tied,
        }  # fmt: skip


CONTACTS = "contact_head.regression"  # fitted to structures; no state depends on it


def _beside(encoder: Encoder) -> dict[str, list[Any]]:
    """Numbers for the head of contacts, zeros, and for the rates of angles."""
    heads, width = sum(sizes.heads for sizes in encoder.layers), encoder.layers[0].head_dim
    contacts: list[Any] = [[0.0] * heads]
    zeros = {f"{CONTACTS}.weight": contacts, f"{CONTACTS}.bias": [0.0]}
    if not isinstance(turned := encoder.positions, RotaryPositions):
        return zeros
    rates = [turned.theta ** (-pair / width) for pair in range(0, width, 2)]
    rates = [float(np.float16(rate)) for rate in rates] if turned.rates == "fp16" else rates
    return zeros | {"rotary_embeddings.inv_freq": rates}


def _claims(candidate: family.Candidate) -> bool:
    """True for dropped masks, and for rotary positions beside pre-norm and parts without a gate."""
    encoder = candidate.encoder
    turns = candidate.turns and encoder.norm.kind == "pre"
    plain = turns and encoder.norm.function == "layer" and encoder.ffn.kind == "mlp"
    return plain or encoder.table.dropped >= 0 or "esm" in candidate.systems


def _tasks(classes: str, of_tokens: str, default: float | None) -> family.TaskHeads:
    of_rows = f"{classes}ForSequenceClassification"
    return family.TaskHeads(
        (
            family.TaskClass(of_rows, "classifier.out_proj", "read", "classifier.dense"),
            family.TaskClass(f"{classes}ForTokenClassification", of_tokens, "unread"),
        ),
        default=default,
        otherwise="ESM has no class for choices and spans",
    )


ESM = family.Family(
    title="ESM",
    config=HfEsm,
    prefix="esm",
    names={
        **{ours: key for ours, key in bert.BODY.items() if not ours.endswith("segment")},
        **bert.POOLER,
        "encoder.embeddings.norm": "embeddings.layer_norm",
        "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.LayerNorm",
        "encoder.ffn.{n}.norm": "encoder.layer.{n}.LayerNorm",
        "encoder.norm": "encoder.emb_layer_norm_after",
        **bert.mlm_keys("lm_head", "lm_head", "layer_norm"),
        "heads.mlm.weight": "lm_head.decoder.weight",
    },
    copies={"lm_head.decoder.weight": bert.TABLE},
    classes=(family.hf_class("EsmForMaskedLM", "mlm"), family.hf_class("EsmModel", "pooler")),
    tasks=_tasks("Esm", "classifier", default=None),
    claims=_claims,
    recipe="roberta",
    vocabulary=Words,
    unread=frozenset(
        f"{module}.{leaf}"  # files of rotary positions have a table of positions too
        for module in (CONTACTS, "embeddings.position_embeddings", "pooler.dense")
        for leaf in ("weight", "bias")
    ),
    unused=_beside,
)


class HfEsmc(HfTurned):
    """EsmcConfig."""

    spelling = {"attention_dropout": "attention_probs_dropout_prob"}
    missing = frozenset(
        {"type_vocab_size", "hidden_dropout_prob", "layer_norm_eps", *spelling.values()}
    )
    ignored = frozenset({"num_key_value_heads"})  # as many as there are heads
    only = config.ROPE

    model_type: Literal["esmc"] = "esmc"
    vocab_size: config.VocabularySize = 64
    hidden_size: Width = 2560
    intermediate_size: Width = 6912
    num_hidden_layers: config.Layers = 80
    num_attention_heads: int = 40
    hidden_dropout_prob: Literal[0] = 0
    max_position_embeddings: Width = 2048
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-5
    pad_token_id: config.PadId | None = 1

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "norm": norm.PreNorm(eps=self.layer_norm_eps, last="unbiased"),
            "attention": FullAttention(bias=self.attention_bias, norm="layer", over="width"),
            "residual": PlainResidual(depth=self.num_hidden_layers),
            "dropout": layer.Dropout(hidden=0, attention=self.attention_probs_dropout_prob),
            "head": TransformHead(tied=False, activation="gelu"),
        }


ESMC = family.Family(
    title="ESM C",
    config=HfEsmc,
    prefix="esmc",
    names={
        **BODY,
        **QUERY_KEY,
        **bert.mlm_keys("lm_head", "lm_head.decoder", "layer_norm"),
    },
    copies={},
    classes=(family.hf_class("EsmcForMaskedLM", "mlm"), family.hf_class("EsmcModel")),
    tasks=_tasks("Esmc", "score", default=0.1),
    claims=lambda c: c.turns and getattr(c.encoder.attention, "over", "head") == "width",
    recipe="roberta",
    vocabulary=Words,
)
