"""NeoBERT's layout, for import: its classes are code in its folder, which is never run."""

from typing import TYPE_CHECKING, Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import HfConfig, Layers
from bertc.hub.families.family import Family, Reshape, TaskHeads, hf_class
from bertc.ir.base import Uniform, Width
from bertc.ir.network import attention, ffn, head, layer, norm, positions
from bertc.ir.network.encoder import Encoder
from bertc.ir.vocabulary import WordPiece

if TYPE_CHECKING:
    from torch import Tensor

MULTIPLE = 8
"""The width of the feed-forward part is rounded up to a multiple of it (model.py)."""


class HfNeoBert(HfConfig):
    """NeoBERTConfig, under the names of BertConfig."""

    spelling = {
        "norm_eps": "layer_norm_eps",
        "max_length": "max_position_embeddings",
        "decoder_init_range": "initializer_range",
    }
    missing = frozenset(
        {"type_vocab_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
         *spelling.values()}
    )  # fmt: skip
    # About weights before training.
    ignored = frozenset({"embedding_init_range", "classifier_init_range"})

    model_type: Literal["neobert"] = "neobert"
    num_hidden_layers: Layers = 28
    max_position_embeddings: Width = 1024
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-6
    dim_head: Width | None = None
    tie_word_embeddings: bool = False

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network, in which a gate has a map more than the width says."""
        return super().settings() | {
            "ffn": -(-(2 * self.intermediate_size // 3) // MULTIPLE) * MULTIPLE,
            "activation": ffn.Glu(kind="swiglu", bias=False),
            "norm": norm.PreNorm(eps=self.layer_norm_eps, function="rms"),
            "positions": positions.RotaryPositions(pairs="interleaved"),
            "attention": attention.FullAttention(bias=False),
            "dropout": layer.Dropout(hidden=0, attention=0),
            "initializer": Uniform(bound=self.initializer_range),
            "head": head.LinearHead(tied=False),
        }


def _in_order(encoder: Encoder, key: str, rows: "Tensor") -> "Tensor":
    """All queries, then all keys, then all values, where each head has its own in a row."""
    if not key.endswith("qkv.weight"):
        return rows
    first = encoder.layers[0]
    by_head = rows.view(first.heads, 3, first.head_dim, -1)
    return by_head.transpose(0, 1).reshape(rows.shape)


NEOBERT = Family(
    title="NeoBERT",
    config=HfNeoBert,
    prefix="model",
    names={
        "encoder.embeddings.token": "encoder",
        **bert.attention_keys("transformer_encoder.{n}.qkv"),
        "encoder.attention.{n}.output": "transformer_encoder.{n}.wo",
        "encoder.attention.{n}.norm": "transformer_encoder.{n}.attention_norm",
        "encoder.ffn.{n}.gate": "transformer_encoder.{n}.ffn.w12",
        "encoder.ffn.{n}.inner": "transformer_encoder.{n}.ffn.w12",
        "encoder.ffn.{n}.outer": "transformer_encoder.{n}.ffn.w3",
        "encoder.ffn.{n}.norm": "transformer_encoder.{n}.ffn_norm",
        "encoder.norm": "layer_norm",
        "heads.mlm": "decoder",
    },
    copies={},
    classes=(hf_class("NeoBERTLMHead", "mlm"), hf_class("NeoBERT")),
    tasks=TaskHeads(()),
    # transformers has no such class: what was imported is written in another layout.
    claims=lambda candidate: False,
    recipe="neobert",
    vocabulary=WordPiece,
    reshape=Reshape(joined=_in_order),
)
