"""Precision, recall and F1 of each class, as scikit-learn and seqeval have them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bertc.data.layouts.example import Example
from bertc.data.metrics.gold import AnswerValue, gold
from bertc.data.metrics.tagged import spans
from bertc.ir.learning.answer import Labels, Tags
from bertc.ir.learning.custom_task import AnyTask


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class, 0 to 1; ``support`` is how often it is the right answer."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ByClass:
    """The scores of each class that was right or answered anywhere, and the mean of their F1."""

    macro_f1: float
    classes: dict[str, ClassScore]


def by_class(
    task: AnyTask, examples: Sequence[Example], answers: Sequence[AnswerValue]
) -> ByClass | None:
    """Scores by label, kind of span, or tag where tags name no spans; None of other answers."""
    if not isinstance(task.answer, Labels | Tags):
        return None
    of_spans = "span_f1" in task.metrics
    hits, answered, right = Counter[str](), Counter[str](), Counter[str]()
    for example, answer in zip(examples, answers, strict=True):
        there, claimed = _items(gold(example), of_spans), _items(answer, of_spans)
        right.update(name for name, *_ in there)
        answered.update(name for name, *_ in claimed)
        hits.update(name for name, *_ in there & claimed)
    classes = {
        name: ClassScore(
            hits[name] / (answered[name] or 1),
            hits[name] / (right[name] or 1),
            2 * hits[name] / (answered[name] + right[name]),
            right[name],
        )
        for name in sorted({*right, *answered})
    }
    return ByClass(fmean(score.f1 for score in classes.values()), classes) if classes else None


def _items(value: AnswerValue, of_spans: bool) -> set[tuple[str, int, int]]:
    if not isinstance(value, tuple):
        return {(str(value), 0, 0)}
    return spans(value) if of_spans else {(tag, at, at) for at, tag in enumerate(value)}
