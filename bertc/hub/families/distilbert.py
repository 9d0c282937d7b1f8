"""DistilBERT's Hugging Face layout: BERT's without token types, and with names of its own."""

from dataclasses import replace
from typing import Any, Literal

from bertc.hub.families import bert
from bertc.hub.families.config import HfConfig, Layers, Tokens
from bertc.hub.families.family import Candidate, Family, TaskHeads, hf_class
from bertc.ir.network.encoder import Encoder
from bertc.ir.vocabulary import WordPiece

CLASS = "DistilBert"
OF_TOKENS, OF_SPANS = bert.token_classes(CLASS)


class HfDistilBert(HfConfig):
    """DistilBertConfig, under the names of BertConfig."""

    spelling = {
        "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size", "activation": "hidden_act",
        "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
    }  # fmt: skip
    missing = frozenset(
        {"type_vocab_size", "layer_norm_eps", "intermediate_size", "hidden_act",
         "hidden_dropout_prob", "attention_probs_dropout_prob"}
    )  # fmt: skip
    copied = frozenset({"qa_dropout", "seq_classif_dropout"})  # of heads of tasks, read there
    ignored = copied | {"sinusoidal_pos_embds"}  # a table of sinusoids is stored like any other

    model_type: Literal["distilbert"] = "distilbert"
    num_hidden_layers: Layers = 6
    type_vocab_size: Literal[0] = 0

    @classmethod
    def values(cls, encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
        return super().values(encoder, tokens) | {"sinusoidal_pos_embds": False}


def _claims(candidate: Candidate) -> bool:
    """True without token types and languages, unless the rest is XLM's."""
    encoder = candidate.encoder
    plain = not encoder.segments and not encoder.languages and encoder.head.kind == "transform"
    return plain and "xlm" not in candidate.systems


DISTILBERT = Family(
    title="DistilBERT",
    config=HfDistilBert,
    prefix="distilbert",
    names={
        **{ours: key for ours, key in bert.EMBEDDINGS.items() if not ours.endswith("segment")},
        **bert.attention_keys("transformer.layer.{n}.attention.{letter}_lin"),
        "encoder.attention.{n}.output": "transformer.layer.{n}.attention.out_lin",
        "encoder.attention.{n}.norm": "transformer.layer.{n}.sa_layer_norm",
        "encoder.ffn.{n}.inner": "transformer.layer.{n}.ffn.lin1",
        "encoder.ffn.{n}.outer": "transformer.layer.{n}.ffn.lin2",
        "encoder.ffn.{n}.norm": "transformer.layer.{n}.output_layer_norm",
        "heads.mlm.dense": "vocab_transform",
        "heads.mlm.norm": "vocab_layer_norm",
        "heads.mlm": "vocab_projector",
    },
    copies={"vocab_projector.weight": bert.TABLE},
    classes=(hf_class(f"{CLASS}ForMaskedLM", "mlm"), hf_class(f"{CLASS}Model")),
    tasks=TaskHeads(
        (
            *bert.pooled_classes(CLASS, "pre_classifier")[:2],
            # It drops as the layers do, by no setting of its own.
            replace(OF_TOKENS, dropout="classifier_dropout"),
            replace(OF_SPANS, dropout="qa_dropout"),
        ),
        dropout="seq_classif_dropout",
        default=0.2,
    ),
    claims=_claims,
    recipe="distilbert",
    vocabulary=WordPiece,
    poolers={"relu": {}},
)
