"""BERT's Hugging Face layout, also SpanBERT's: BertModel and the classes built on it."""

from typing import Literal

from bertc.hub.families import bert_like
from bertc.hub.families.config import ABSOLUTE, HfConfig
from bertc.hub.families.family import Family, TaskHeads, hf_class
from bertc.ir.vocabulary import WordPiece


class HfBert(HfConfig):
    """BertConfig."""

    only = ABSOLUTE

    model_type: Literal["bert"] = "bert"


BERT = Family(
    model_type="bert",
    title="BERT",
    config=HfBert,
    prefix="bert",
    names={
        **bert_like.BODY,
        **bert_like.POOLER,
        "heads.mlm.dense": "cls.predictions.transform.dense",
        "heads.mlm.norm": "cls.predictions.transform.LayerNorm",
        "heads.mlm": "cls.predictions",
        "heads.nsp": "cls.seq_relationship",
    },
    copies={
        "cls.predictions.decoder.weight": bert_like.TABLE,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    classes=(
        hf_class("BertForPreTraining", "pooler", "mlm", "nsp"),
        hf_class("BertForMaskedLM", "mlm"),
        hf_class("BertForNextSentencePrediction", "pooler", "nsp"),
        hf_class("BertModel", "pooler"),
    ),
    labels={"mlm": "labels", "nsp": "next_sentence_label"},
    tasks=TaskHeads(bert_like.pooled_classes("Bert"), dropout="classifier_dropout"),
    claims=lambda candidate: True,
    settings=bert_like.settings_of,
    config_of=bert_like.config_of,
    recipe="bert",
    vocabulary=WordPiece,
)
