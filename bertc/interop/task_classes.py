"""The classes of transformers that hold a task's head, and what each calls it (transformers 5.23).

All keys but the encoder's stand without a prefix. Every head is one linear map, as bertc's are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bertc.interop.names import HfClass, LayoutName
from bertc.interop.obstacle import Obstacle
from bertc.ir.learning.answer import Labels, Score, Span, Tags
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.resolved import Resolved

Kind = Literal["labels", "score", "choice", "tags", "span"]
Pooler = Literal["read", "perhaps", "refused", "unread"]
DROPOUT: dict[LayoutName, str] = {
    "bert": "classifier_dropout",
    "roberta": "classifier_dropout",
    "albert": "classifier_dropout_prob",
    "xlm": "summary_first_dropout",
    "electra": "classifier_dropout",
    "xlnet": "summary_last_dropout",
}
"""The setting for the dropout of what a head reads."""


@dataclass(frozen=True)
class TaskClass:
    """A class for a kind of answers.

    ``head`` is its linear map. The pooler is the encoder's, or where ``own_pooler`` names it a part
    of the head.
    """

    name: str
    kinds: tuple[Kind, ...]
    head: str
    pooler: Pooler
    own_pooler: str = ""

    def holding(self, layout: LayoutName, title: str, pooled: bool) -> HfClass:
        """The class with the head of a task in its place."""
        named = {f"heads.{title}": self.head}
        reads = pooled and self.pooler in ("read", "perhaps")
        if reads and self.own_pooler:
            named["encoder.pooler"] = self.own_pooler
        parts = frozenset({title, "pooler"} if reads else {title})
        return HfClass(self.name, parts, named, self.summary(layout, pooled))

    def summary(self, layout: LayoutName, pooled: bool) -> Mapping[str, Any]:
        """The settings that say how the states of a row become one."""
        if self.pooler == "refused":
            return {
                "summary_type": "first",
                "summary_use_proj": True,
                "summary_proj_to_labels": True,
                "summary_activation": None,
            }
        if self.pooler == "perhaps":
            return {
                "summary_type": "last" if layout == "xlnet" else "first",
                "summary_use_proj": pooled,
                "summary_activation": "tanh" if pooled else "",
            }
        return {}


def _of_bert(title: str) -> tuple[TaskClass, ...]:
    return (
        TaskClass(f"{title}ForSequenceClassification", ("labels", "score"), "classifier", "read"),
        TaskClass(f"{title}ForMultipleChoice", ("choice",), "classifier", "read"),
        *_of_tokens(title, "ForQuestionAnswering"),
    )


def _of_tokens(title: str, reads: str) -> tuple[TaskClass, ...]:
    return (
        TaskClass(f"{title}ForTokenClassification", ("tags",), "classifier", "unread"),
        TaskClass(f"{title}{reads}", ("span",), "qa_outputs", "unread"),
    )


SUMMARY = "sequence_summary.summary"
TASK_CLASSES: dict[LayoutName, tuple[TaskClass, ...]] = {
    "bert": _of_bert("Bert"),
    "roberta": (
        TaskClass(
            "RobertaForSequenceClassification",
            ("labels", "score"),
            "classifier.out_proj",
            "read",
            "classifier.dense",
        ),
        *_of_bert("Roberta")[1:],
    ),
    "albert": _of_bert("Albert"),
    "xlm": (
        TaskClass("XLMForSequenceClassification", ("labels", "score"), SUMMARY, "refused"),
        *_of_tokens("XLM", "ForQuestionAnsweringSimple"),
    ),
    "electra": (
        TaskClass("ElectraForMultipleChoice", ("choice",), "classifier", "perhaps", SUMMARY),
        *_of_tokens("Electra", "ForQuestionAnswering"),
    ),
    "xlnet": (
        TaskClass(
            "XLNetForSequenceClassification",
            ("labels", "score"),
            "logits_proj",
            "perhaps",
            SUMMARY,
        ),
        TaskClass("XLNetForMultipleChoice", ("choice",), "logits_proj", "perhaps", SUMMARY),
        *_of_tokens("XLNet", "ForQuestionAnsweringSimple"),
    ),
}
"""Classes that compute what bertc does."""

OTHERWISE: dict[LayoutName, str] = {
    "electra": "ElectraForSequenceClassification has a dense layer with gelu before its scores",
    "xlm": "XLMForMultipleChoice reads a choice's score from scores of labels",
}
"""Why the layout has no class for the answers that the table lacks."""


def held_task(program: Resolved, parts: frozenset[str]) -> AnyTask | None:
    """The task whose head a class is to hold: the first of the last stage, if its head is there."""
    tasks = program.stages[-1].tasks
    return next((task for task in tasks if task.title in parts), None)


def task_class(layout: LayoutName, task: AnyTask, pooled: bool) -> HfClass | Obstacle:
    """The class for a task on an encoder with a pooler or without, or what stands in the way."""
    answer = task.answer
    if isinstance(answer, Span) and answer.head.kind == "conditioned":
        return Obstacle(
            "head=conditioned",
            "the classes that hold a span score both its ends by themselves",
            f"task={task.kind}(..., head=plain)",
        )
    found = next((each for each in TASK_CLASSES[layout] if answer.kind in each.kinds), None)
    if found is None:
        return Obstacle(f"task={task.kind}", OTHERWISE[layout])
    if found.pooler == "read" and not pooled:
        return Obstacle("pooler=false", f"{found.name} scores a pooled state", "pooler=true")
    if found.pooler == "refused" and pooled:
        return Obstacle(
            "pooler=true", f"{found.name} scores the first state itself", "pooler=false"
        )
    chosen = found.holding(layout, task.title, pooled)
    return chosen.saying({**told(task), DROPOUT[layout]: task.dropout, **chosen.settings})


def told(task: AnyTask) -> Mapping[str, Any]:
    """What ``config.json`` says of a task: its title and its labels."""
    title = {"finetuning_task": task.title}
    match task.answer:
        case Labels(names=names):
            return {**title, **_labels(names), "problem_type": "single_label_classification"}
        case Tags(names=names):
            return {**title, **_labels(names)}
        case Score():
            return {**title, **_labels(("LABEL_0",)), "problem_type": "regression"}
        case _:
            return title


def _labels(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
        "num_labels": len(names),
    }
