"""DistilBERT's Hugging Face layout: BERT's without token types, and with names of its own."""

from typing import Any, Literal

from bertc.hub.families import bert_like
from bertc.hub.families.config import ACTIVATIONS, HfConfig, Layers
from bertc.hub.families.family import Candidate, Family, TaskClass, TaskHeads, Tokens, hf_class
from bertc.ir.network.encoder import Encoder
from bertc.ir.vocabulary import WordPiece


class HfDistilBert(HfConfig):
    """DistilBertConfig, under the names of BertConfig."""

    spelling = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    missing = frozenset(
        {"type_vocab_size", "layer_norm_eps", "intermediate_size", "hidden_act",
         "hidden_dropout_prob", "attention_probs_dropout_prob"}
    )  # fmt: skip
    copied = frozenset({"qa_dropout", "seq_classif_dropout"})
    ignored = {
        **dict.fromkeys(copied, "belongs to the head of a task, and is read there"),
        "sinusoidal_pos_embds": "a table of sinusoids is stored like any other",
    }

    model_type: Literal["distilbert"] = "distilbert"
    num_hidden_layers: Layers = 6
    type_vocab_size: Literal[0] = 0


def _claims(candidate: Candidate) -> bool:
    """True without token types and languages, unless the rest is XLM's."""
    encoder = candidate.encoder
    plain = not encoder.segments and not encoder.languages and encoder.head.kind == "transform"
    return plain and "xlm" not in candidate.systems


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    """The settings by DistilBertConfig's names."""
    return {
        "dim": encoder.hidden,
        "n_layers": len(encoder.layers),
        "n_heads": encoder.layers[0].heads,
        "hidden_dim": encoder.layers[0].ffn,
        "activation": ACTIVATIONS[encoder.head_activation],
        "dropout": encoder.dropout.hidden,
        "attention_dropout": encoder.dropout.attention,
        "max_position_embeddings": bert_like.same_rows(encoder),
        "sinusoidal_pos_embds": False,
        "initializer_range": bert_like.init_std(encoder),
        "pad_token_id": tokens.pad,
        **bert_like.ENDING,
    }


DISTILBERT = Family(
    model_type="distilbert",
    title="DistilBERT",
    config=HfDistilBert,
    prefix="distilbert",
    names={
        **{ours: key for ours, key in bert_like.EMBEDDINGS.items() if not ours.endswith("segment")},
        "encoder.attention.{n}.query": "transformer.layer.{n}.attention.q_lin",
        "encoder.attention.{n}.key": "transformer.layer.{n}.attention.k_lin",
        "encoder.attention.{n}.value": "transformer.layer.{n}.attention.v_lin",
        "encoder.attention.{n}.output": "transformer.layer.{n}.attention.out_lin",
        "encoder.attention.{n}.norm": "transformer.layer.{n}.sa_layer_norm",
        "encoder.ffn.{n}.inner": "transformer.layer.{n}.ffn.lin1",
        "encoder.ffn.{n}.outer": "transformer.layer.{n}.ffn.lin2",
        "encoder.ffn.{n}.norm": "transformer.layer.{n}.output_layer_norm",
        "heads.mlm.dense": "vocab_transform",
        "heads.mlm.norm": "vocab_layer_norm",
        "heads.mlm": "vocab_projector",
    },
    copies={"vocab_projector.weight": bert_like.TABLE},
    classes=(hf_class("DistilBertForMaskedLM", "mlm"), hf_class("DistilBertModel")),
    tasks=TaskHeads(
        (
            TaskClass(
                "DistilBertForSequenceClassification",
                ("labels", "score"),
                "classifier",
                "read",
                "pre_classifier",
            ),
            TaskClass(
                "DistilBertForMultipleChoice", ("choice",), "classifier", "read", "pre_classifier"
            ),
            # It drops as the layers do, by no setting of its own.
            TaskClass(
                "DistilBertForTokenClassification",
                ("tags",),
                "classifier",
                "unread",
                dropout="classifier_dropout",
            ),
            TaskClass(
                "DistilBertForQuestionAnswering",
                ("span",),
                "qa_outputs",
                "unread",
                dropout="qa_dropout",
            ),
        ),
        dropout="seq_classif_dropout",
        default=0.2,
    ),
    claims=_claims,
    settings=bert_like.settings_of,
    config_of=_config_of,
    recipe="distilbert",
    vocabulary=WordPiece,
    poolers={"relu": {}},
)
