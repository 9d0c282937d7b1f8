"""DeBERTa's Hugging Face layout as of its third version: disentangled attention, no positions."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bertc.hub.families import bert
from bertc.hub.families.config import HfConfig, Layers, Single, Tokens, VocabularySize
from bertc.hub.families.family import Family, HfClass, TaskHeads, hf_class, poolers
from bertc.ir.base import Width
from bertc.ir.network import norm, positions
from bertc.ir.network.attention import DisentangledAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import Unigram

MLM_HEAD = "lm_predictions.lm_head"


class HfDeberta(HfConfig):
    """DebertaV2Config with the settings of the third version's releases."""

    copied = frozenset({"cls_dropout", "pooler_dropout"})  # of classes of tasks
    ignored = copied | {
        "legacy",  # names the weights of the masked-LM head, not what they compute
        "pooler_hidden_size",  # the weights of the pooler say it
        "conv_act",
        "conv_groups",
    }
    only = {
        "conv_kernel_size": Single(0, "the first layer has a convolution"),
        "attention_head_size": Single(None, "heads do not fill the hidden width"),
        "embedding_size": Single(None, "the token table is narrower"),
    }

    model_type: Literal["deberta-v2"] = "deberta-v2"
    vocab_size: VocabularySize = 128_100
    hidden_size: Width = 1536
    num_hidden_layers: Layers = 24
    num_attention_heads: Heads = 24
    intermediate_size: Width = 6144
    type_vocab_size: Literal[0] = 0
    layer_norm_eps: norm.Epsilon = 1e-7
    # DebertaV2Config has other values for these where a file does not say them.
    relative_attention: Literal[True] = Field(description="scores know no distances")
    position_biased_input: Literal[False] = Field(description="tokens have position embeddings")
    share_att_key: Literal[True] = Field(description="distances have maps of their own")
    norm_rel_ebd: Literal["layer_norm"] = Field(description="the table of distances has no norm")
    position_buckets: Annotated[int, Field(ge=4, le=100_000)]
    max_relative_positions: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    pos_att_type: str | list[str]
    pooler_hidden_act: Literal["gelu", "tanh", "relu"] = "gelu"

    @model_validator(mode="after")
    def _both_directions(self) -> Self:
        text = self.pos_att_type
        kinds = text.lower().split("|") if isinstance(text, str) else text
        if {kind.strip() for kind in kinds} != {"c2p", "p2c"}:
            message = f"pos_att_type = {text}"
            raise ValueError(message, "bertc scores distances by queries and by keys")
        return self

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network; distances reach as far as rows if no setting says so."""
        longest = self.max_relative_positions
        distance = self.max_position_embeddings if longest < 1 else longest
        attention = DisentangledAttention.model_construct(  # which is checked with the program
            kind="disentangled", buckets=self.position_buckets, distance=distance
        )
        return super().settings() | {"positions": positions.NoPositions(), "attention": attention}

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        attention = encoder.attention
        assert isinstance(attention, DisentangledAttention), "as claimed"
        return {
            **super().values(encoder, tokens), "type_vocab_size": 0, "relative_attention": True,
            "position_biased_input": False, "share_att_key": True, "norm_rel_ebd": "layer_norm",
            "max_position_embeddings": attention.distance, "max_relative_positions": -1,
            "position_buckets": attention.buckets, "pos_att_type": ["p2c", "c2p"],
        }  # fmt: skip


DEBERTA = Family(
    title="DeBERTa",
    config=HfDeberta,
    prefix="deberta",
    names={
        **bert.BODY,
        **bert.attention_keys("encoder.layer.{n}.attention.self.{part}_proj"),
        "encoder.relative.distance": "encoder.rel_embeddings",
        "encoder.relative.norm": "encoder.LayerNorm",
        **bert.mlm_keys(MLM_HEAD, MLM_HEAD),
    },
    copies=bert.tied(MLM_HEAD),
    # The head of `legacy` configurations, which no release has, and every model that
    # transformers trained: it computes the same.
    older=dict.fromkeys(("cls.predictions.transform.", "cls.predictions."), f"{MLM_HEAD}."),
    classes=(
        HfClass("DebertaV2ForMaskedLM", frozenset({"mlm"}), settings={"legacy": False}),
        hf_class("DebertaV2Model"),
    ),
    tasks=TaskHeads(bert.pooled_classes("DebertaV2", "pooler.dense"), dropout="cls_dropout"),
    claims=lambda candidate: isinstance(candidate.encoder.attention, DisentangledAttention),
    recipe="deberta",
    vocabulary=Unigram,
    unread=frozenset({"embeddings.position_embeddings.weight"}),  # which only its decoder added
    poolers=poolers("pooler_hidden_act", {"gelu": "gelu", True: "tanh", "relu": "relu"}),
)
