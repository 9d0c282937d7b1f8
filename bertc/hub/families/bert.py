"""BERT's Hugging Face layout, also SpanBERT's, and the names that other layouts share with it."""

from typing import Literal

from bertc.hub.families.config import ABSOLUTE, HfConfig
from bertc.hub.families.family import Family, TaskClass, TaskHeads, hf_class
from bertc.ir.vocabulary import WordPiece


def attention_keys(key: str) -> dict[str, str]:
    """Keys of the maps of queries, keys and values: one for all, or by ``part`` or ``letter``."""
    return {
        f"encoder.attention.{{n}}.{part}": key.format(n="{n}", part=part, letter=part[0])
        for part in ("query", "key", "value")
    }


def mlm_keys(inner: str, head: str, norm: str = "LayerNorm") -> dict[str, str]:
    """Keys of a masked-LM head, whose ``inner`` modules are a linear layer and a ``norm``."""
    within = {"heads.mlm.dense": f"{inner}.dense", "heads.mlm.norm": f"{inner}.{norm}"}
    return {**within, "heads.mlm": head}


def tied(head: str) -> dict[str, str]:
    """Copies in a ``decoder`` of the token table and of the bias of a masked-LM head."""
    return {f"{head}.decoder.weight": TABLE, f"{head}.decoder.bias": f"{head}.bias"}


EMBEDDINGS = {
    "encoder.embeddings.token": "embeddings.word_embeddings",
    "encoder.embeddings.position": "embeddings.position_embeddings",
    "encoder.embeddings.segment": "embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "embeddings.LayerNorm",
}
BODY = {
    **EMBEDDINGS,
    **attention_keys("encoder.layer.{n}.attention.self.{part}"),
    "encoder.attention.{n}.output": "encoder.layer.{n}.attention.output.dense",
    "encoder.attention.{n}.norm": "encoder.layer.{n}.attention.output.LayerNorm",
    "encoder.ffn.{n}.inner": "encoder.layer.{n}.intermediate.dense",
    "encoder.ffn.{n}.outer": "encoder.layer.{n}.output.dense",
    "encoder.ffn.{n}.norm": "encoder.layer.{n}.output.LayerNorm",
}
POOLER = {"encoder.pooler": "pooler.dense"}
TABLE = "embeddings.word_embeddings.weight"


def pooled_classes(title: str, pooler: str = "") -> tuple[TaskClass, ...]:
    """Task classes that score the pooled state, or that of a ``pooler``, with one linear layer."""
    return (
        TaskClass(f"{title}ForSequenceClassification", "classifier", "read", pooler),
        TaskClass(f"{title}ForMultipleChoice", "classifier", "read", pooler),
        *token_classes(title),
    )


def token_classes(title: str, simple: str = "") -> tuple[TaskClass, ...]:
    """Task classes that score every token."""
    return (
        TaskClass(f"{title}ForTokenClassification", "classifier", "unread"),
        TaskClass(f"{title}ForQuestionAnswering{simple}", "qa_outputs", "unread"),
    )


class HfBert(HfConfig):
    """BertConfig."""

    only = ABSOLUTE

    model_type: Literal["bert"] = "bert"


BERT = Family(
    title="BERT",
    config=HfBert,
    prefix="bert",
    names={
        **BODY,
        **POOLER,
        **mlm_keys("cls.predictions.transform", "cls.predictions"),
        "heads.nsp": "cls.seq_relationship",
    },
    copies=tied("cls.predictions"),
    classes=(
        hf_class("BertForPreTraining", "pooler", "mlm", "nsp"),
        hf_class("BertForMaskedLM", "mlm"),
        hf_class("BertForNextSentencePrediction", "pooler", "nsp"),
        hf_class("BertModel", "pooler"),
    ),
    labels={"mlm": "labels", "nsp": "next_sentence_label"},
    tasks=TaskHeads(pooled_classes("Bert")),
    claims=lambda candidate: True,
    recipe="bert",
    vocabulary=WordPiece,
)
