"""XLM's Hugging Face layout: language embeddings, no token types, a linear head."""

from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.hub.families import bert
from bertc.hub.families.config import HfConfig, PadId, Single, Tokens, VocabularySize, ends
from bertc.hub.families.family import Family, TaskClass, TaskHeads, hf_class
from bertc.ir.base import Width
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import LinearHead
from bertc.ir.program.settings import Heads
from bertc.ir.vocabulary import WordPiece


class HfXlm(HfConfig):
    """XLMConfig, under the names of BertConfig."""

    spelling = {
        "emb_dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
        "gelu_activation": "hidden_act", "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob", "init_std": "initializer_range",
        "n_words": "vocab_size", "pad_index": "pad_token_id",
    }  # fmt: skip
    missing = frozenset(
        {"hidden_act", "intermediate_size", "type_vocab_size", "hidden_dropout_prob",
         "attention_probs_dropout_prob", "initializer_range"}
    )  # fmt: skip
    copied = frozenset(
        {"lang_id", "embed_init_std", "bos_index", "eos_index", "unk_index", "mask_index",
         "asm_cutoffs", "asm_div_value", "pad_index"}
    )  # fmt: skip
    # About generation and training, or redundant with another setting.
    ignored = copied - {"pad_index"} | {"id2lang"}
    only = {
        "sinusoidal_embeddings": Single(False, "positions are sinusoids"),
        "causal": Single(False, "tokens see earlier ones alone"),
        "asm": Single(False, "the head scores tokens by groups"),
        "is_encoder": Single(True, "it has a decoder"),
    }

    model_type: Literal["xlm"] = "xlm"
    vocab_size: VocabularySize = 30_145
    hidden_size: Width = 2048
    num_attention_heads: Heads = 16
    hidden_act: Literal["gelu", "relu"] = "gelu"
    type_vocab_size: Literal[0] = 0
    pad_token_id: PadId = 2
    n_langs: Annotated[int, Field(ge=1, le=255)] = 1
    use_lang_emb: bool = True
    lang2id: dict[str, int] | None = None

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        """An activation by name, where a file says whether it is GELU."""
        gelu = name == "gelu_activation" and isinstance(value, bool)
        return ("gelu" if value else "relu") if gelu else value

    def settings(self) -> dict[str, Any]:
        """bertc's settings of the network; languages that have no name are called by number."""
        names = {number: name for name, number in (self.lang2id or {}).items()}
        count = self.n_langs if self.n_langs > 1 and self.use_lang_emb else 0
        return super().settings() | {
            "ffn": 4 * self.hidden_size,
            "head": LinearHead(),
            "languages": tuple(names.get(number, str(number)) for number in range(count)),
            "language_embeddings": count > 0,
        }

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        names = dict(enumerate(encoder.languages))
        named = {"id2lang": {str(n): name for n, name in names.items()},
                 "lang2id": {name: n for n, name in names.items()}}  # fmt: skip
        return {
            **super().values(encoder, tokens), "hidden_act": encoder.ffn.head_activation != "relu",
            "n_langs": max(1, len(names)), "use_lang_emb": bool(names),
            "embed_init_std": encoder.hidden**-0.5, **ends(tokens), **(named if names else {}),
        }  # fmt: skip

    @classmethod
    def to_file(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        known = super().to_file(encoder, tokens)
        return known | {"pad_token_id": known.pop("pad_index")}


XLM = Family(
    title="XLM",
    config=HfXlm,
    prefix="transformer",
    names={
        "encoder.embeddings.token": "embeddings",
        "encoder.embeddings.position": "position_embeddings",
        "encoder.embeddings.language": "lang_embeddings",
        "encoder.embeddings.norm": "layer_norm_emb",
        **bert.attention_keys("attentions.{n}.{letter}_lin"),
        "encoder.attention.{n}.output": "attentions.{n}.out_lin",
        "encoder.attention.{n}.norm": "layer_norm1.{n}",
        "encoder.ffn.{n}.inner": "ffns.{n}.lin1",
        "encoder.ffn.{n}.outer": "ffns.{n}.lin2",
        "encoder.ffn.{n}.norm": "layer_norm2.{n}",
        "heads.mlm": "pred_layer.proj",
    },
    copies={"pred_layer.proj.weight": "embeddings.weight"},
    classes=(hf_class("XLMWithLMHeadModel", "mlm"), hf_class("XLMModel")),
    tasks=TaskHeads(
        (
            TaskClass("XLMForSequenceClassification", "sequence_summary.summary", "refused"),
            *bert.token_classes("XLM", simple="Simple"),
        ),
        dropout="summary_first_dropout",
        default=0.1,
        otherwise="XLMForMultipleChoice derives the score of a choice from label scores",
    ),
    claims=lambda candidate: not candidate.encoder.segments,
    recipe="xlm",
    vocabulary=WordPiece,
)
