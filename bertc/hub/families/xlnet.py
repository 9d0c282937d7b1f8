"""XLNet's Hugging Face layout: relative attention, two streams, a single dropout rate.

Axes of its tensors: h hidden, n heads, d head_dim. bertc's are (n * d, h), like every linear
layer's.
"""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from bertc.hub.families import bert, family
from bertc.hub.families.config import HfConfig, Layers, PadId, Single, Tokens, VocabularySize, ends
from bertc.hub.families.family import Obstacle
from bertc.ir.base import Width
from bertc.ir.network import head, layer, norm, positions
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import Unigram
from bertc.lang.write.show import show_value

if TYPE_CHECKING:
    from torch import Tensor

INWARD = ("query.weight", "key.weight", "value.weight", "distance.weight")
BY_HEAD = ("content_bias", "distance_bias", "segment_bias", "segment", "output.weight")


class HfXlnet(HfConfig):
    """XLNetConfig, under the names of BertConfig."""

    spelling = {
        "d_model": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
        "d_inner": "intermediate_size", "ff_activation": "hidden_act",
        "dropout": "hidden_dropout_prob", "n_token": "vocab_size",
    }  # fmt: skip
    missing = frozenset(
        {"type_vocab_size", "max_position_embeddings", "attention_probs_dropout_prob",
         "intermediate_size", "hidden_act", "hidden_dropout_prob"}
    )  # fmt: skip
    # The memory length is chosen when reading, the weights' shapes say the width of heads.
    ignored = frozenset({"mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "d_head"})
    copied = ignored - {"d_head"} | {"ff_activation"}
    only = {
        "attn_type": Single("bi", "tokens see earlier ones alone"),
        "bi_data": Single(False, "half of a batch is read backwards"),
        "same_length": Single(False, "tokens see equally many"),
    }

    model_type: Literal["xlnet"] = "xlnet"
    vocab_size: VocabularySize = 32_000
    hidden_size: Width = 1024
    num_hidden_layers: Layers = 24
    num_attention_heads: Heads = 16
    intermediate_size: Width = 4096
    type_vocab_size: Literal[0] = 0
    pad_token_id: PadId | None = 5
    clamp_len: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    summary_activation: str | None = "tanh"

    def settings(self) -> dict[str, Any]:
        rate = self.hidden_dropout_prob
        clamp = max(0, self.clamp_len)
        return super().settings() | {
            "positions": positions.NoPositions(),
            "attention": RelativeAttention(untie=True, segments=True, clamp=clamp),
            "norm": norm.PostNorm(eps=self.layer_norm_eps, embeddings=False),
            "dropout": layer.Dropout(hidden=rate, attention=rate, ffn=rate, last=rate),
            "head": head.LinearHead(),
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention = encoder.attention
        clamp = attention.clamp if isinstance(attention, RelativeAttention) else 0
        return {
            **super().values(encoder, tokens), "d_head": encoder.hidden // encoder.layers[0].heads,
            "clamp_len": clamp or -1, **{name: single.value for name, single in cls.only.items()},
            **ends(tokens),
        }  # fmt: skip


def _obstacle(candidate: family.Candidate) -> Obstacle | None:
    """Two streams of other attention, or one stream that neither plm trained nor a task reads."""
    if not isinstance(candidate.encoder.attention, RelativeAttention):
        why = "only the XLNet layout has two streams"
        return Obstacle("objective=plm", why, "attention=relative(untie=true, segments=true)")
    if candidate.encoder.two_streams or candidate.tuned:
        return None
    why = "the XLNet layout has an embedding for the query stream, which only plm trains"
    return Obstacle(f"attention={show_value(candidate.encoder.attention)}", why, "attention=full")


def _stored_shape(encoder: Encoder, name: str, shape: family.Shape) -> family.Shape:
    by_head = (encoder.layers[0].heads, encoder.layers[0].head_dim)
    if name.endswith("embeddings.unseen"):
        return (1, 1, *shape)
    if not name.startswith("encoder.attention."):
        return shape
    if name.endswith(INWARD):
        return (shape[1], *by_head)
    return (*shape[:-1], *by_head) if name.endswith(BY_HEAD) else shape


def _to_layout(encoder: Encoder, name: str, tensor: "Tensor") -> "Tensor":
    turned = tensor.T if name.endswith(INWARD) else tensor
    return turned.reshape(_stored_shape(encoder, name, tuple(tensor.shape)))


def _from_layout(name: str, tensor: "Tensor", shape: family.Shape) -> "Tensor":
    """A tensor of the layout in the shape of bertc's table."""
    if name.startswith("encoder.attention.") and name.endswith(INWARD):
        return tensor.reshape(shape[1], shape[0]).T.contiguous()
    assert tensor.numel() == math.prod(shape), f"{name} has passed the check of shapes"
    return tensor.reshape(shape)


XLNET = family.Family(
    title="XLNet",
    config=HfXlnet,
    prefix="transformer",
    names={
        "encoder.embeddings.token": "word_embedding",
        "encoder.attention.{n}.norm": "layer.{n}.rel_attn.layer_norm",
        "encoder.ffn.{n}.inner": "layer.{n}.ff.layer_1",
        "encoder.ffn.{n}.outer": "layer.{n}.ff.layer_2",
        "encoder.ffn.{n}.norm": "layer.{n}.ff.layer_norm",
        "heads.plm": "lm_loss",
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
    copies={"lm_loss.weight": "word_embedding.weight"},
    classes=(family.hf_class("XLNetLMHeadModel", "plm"), family.hf_class("XLNetModel")),
    tasks=family.TaskHeads(
        (
            *(
                family.TaskClass(name, "logits_proj", "perhaps", "sequence_summary.summary", "last")
                for name in ("XLNetForSequenceClassification", "XLNetForMultipleChoice")
            ),
            *bert.token_classes("XLNet", simple="Simple"),
        ),
        dropout="summary_last_dropout",
        default=0.1,
        summary={"summary_type": "last", "summary_activation": "tanh"},
    ),
    claims=lambda c: c.encoder.attention.kind == "relative" or c.encoder.two_streams,
    obstacle=_obstacle,
    recipe="xlnet",
    vocabulary=Unigram,
    poolers={True: {"summary_activation": "tanh"}},
    unread=frozenset({"mask_emb"}),
    # The class has an embedding that tasks do not use.
    unused=lambda encoder: {} if encoder.two_streams else {"mask_emb": [[[0.0] * encoder.hidden]]},
    reshape=family.Reshape(_stored_shape, _to_layout, _from_layout),
)
