"""Metrics of answers against gold: those of torchmetrics and of the official scripts.

torchmetrics is imported where it is used, because it imports every optional library it finds.
"""

from collections.abc import Sequence
from itertools import chain
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from bertc.data.layouts.example import Example, RelatedExample
from bertc.diagnostics import DataError
from bertc.ir.learning.answer import Labels, Span, Tags, Vector
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.task import Metric
from bertc.tasks.gold import AnswerValue, gold, questions_of
from bertc.tasks.reading import agreement
from bertc.tasks.tagged import span_f1


def judge(
    task: AnyTask, examples: Sequence[Example], answers: Sequence[AnswerValue]
) -> dict[str, float]:
    """Score answers by each of ``task.metrics``: 0 to 1, MCC and correlations -1 to 1.

    MCC and correlations are undefined if all answers, or all gold answers, are the same. They count
    as 0 then, so that a model that learned nothing has a number to compare and average.

    Raises:
        DataError: if there are no examples, or one has no label.
    """
    if not examples:
        raise DataError(
            "there are no examples to score", "name a part with labels and at least one row"
        )
    assert len(examples) == len(answers), f"{len(answers)} answers to {len(examples)} examples"
    if isinstance(task.answer, Span):
        values = agreement(questions_of(examples), _texts(answers), task.answer.unanswerable)
        return {metric: float(values[metric].mean()) for metric in task.metrics}
    right = [gold(example) for example in examples]
    metrics = _ranked(examples) if isinstance(task.answer, Vector) else task.metrics
    return {metric: _value(metric, task, right, answers) for metric in metrics}


def _ranked(examples: Sequence[Example]) -> tuple[Metric, ...]:
    """The metrics of pairs, which a file may have scores of though the task learned from none."""
    first = examples[0]
    scored = isinstance(first, RelatedExample) and first.score is not None
    return ("spearman", "pearson") if scored else ("accuracy",)


def _value(
    metric: Metric, task: AnyTask, right: Sequence[AnswerValue], answers: Sequence[AnswerValue]
) -> float:
    match metric:
        case "accuracy":
            return _accuracy(right, answers)
        case "f1":
            assert isinstance(task.answer, Labels), "f1 is of labels"
            return _f1(right, answers, positive=task.answer.names[1])
        case "mcc":
            return _mcc(right, answers)
        case "pearson":
            return _pearson(_numbers(right), _numbers(answers))
        case "spearman":
            return _pearson(_ranks(_numbers(right)), _ranks(_numbers(answers)))
        case "span_f1":
            assert isinstance(task.answer, Tags), "span_f1 is of tags"
            return span_f1(_tags(right), _tags(answers))
        case "em" | "squad_f1":
            raise AssertionError(f"{metric} is of spans")
    assert_never(metric)


def _accuracy(right: Sequence[AnswerValue], answers: Sequence[AnswerValue]) -> float:
    """The fraction of examples, for tags of words, that are right; 0 if there are none."""
    from torchmetrics.functional.classification import multiclass_accuracy

    if isinstance(right[0], tuple):
        right, answers = _words(_tags(right), _tags(answers))
    if not right:
        return 0.0
    right_n, answers_n, classes = _numbered(right, answers)
    return float(multiclass_accuracy(answers_n, right_n, num_classes=classes, average="micro"))


def _f1(right: Sequence[AnswerValue], answers: Sequence[AnswerValue], positive: str) -> float:
    """F1 of one label; 0 if neither side has it, as in scikit-learn."""
    from torchmetrics.functional.classification import binary_f1_score

    def is_it(labels: Sequence[AnswerValue]) -> Tensor:
        return torch.tensor([int(label == positive) for label in labels])

    return float(binary_f1_score(is_it(answers), is_it(right)))


def _mcc(right: Sequence[AnswerValue], answers: Sequence[AnswerValue]) -> float:
    """Matthews' correlation; for three or more labels Gorodkin's R_K."""
    from torchmetrics.functional.classification import multiclass_matthews_corrcoef

    # torchmetrics calls one label on both sides 1, and its opposite -1; scikit-learn says 0.
    if len(set(right)) == 1 or len(set(answers)) == 1:
        return 0.0
    right_n, answers_n, classes = _numbered(right, answers)
    return float(multiclass_matthews_corrcoef(answers_n, right_n, num_classes=classes))


def _pearson(right_n: Tensor, answers_n: Tensor) -> float:
    """Pearson's correlation in fp64; 0 if one side is constant."""
    from torchmetrics.functional.regression import pearson_corrcoef

    if right_n.min() == right_n.max() or answers_n.min() == answers_n.max():
        return 0.0
    return float(pearson_corrcoef(answers_n, right_n))


def _ranks(values_n: Tensor) -> Tensor:
    """Ranks from 1, ties sharing their mean; Spearman's correlation is Pearson's of these.

    torchmetrics' own Spearman adds 1e-6 to the denominator, which shows on few examples.
    """
    _, kind_n, count_k = np.unique(values_n.numpy(), return_inverse=True, return_counts=True)
    last_k = count_k.cumsum()
    return torch.from_numpy((last_k - (count_k - 1) / 2)[kind_n])


def _numbered(
    right: Sequence[AnswerValue], answers: Sequence[AnswerValue]
) -> tuple[Tensor, Tensor, int]:
    """Both sides as class indices, and the number of classes, at least 2.

    An answer that is no gold label is a class of its own, and so is wrong.
    """
    classes = {kind: number for number, kind in enumerate(dict.fromkeys([*right, *answers]))}
    right_n = torch.tensor([classes[kind] for kind in right])
    answers_n = torch.tensor([classes[kind] for kind in answers])
    return right_n, answers_n, max(2, len(classes))


def _words(right: list[tuple[str, ...]], answers: list[tuple[str, ...]]) -> tuple[list[str], ...]:
    assert [*map(len, right)] == [*map(len, answers)], "a tag a word"
    return list(chain.from_iterable(right)), list(chain.from_iterable(answers))


def _numbers(values: Sequence[AnswerValue]) -> Tensor:
    numbers = [float(value) for value in values if not isinstance(value, tuple)]
    return torch.tensor(numbers, dtype=torch.float64)


def _tags(values: Sequence[AnswerValue]) -> list[tuple[str, ...]]:
    return [value for value in values if isinstance(value, tuple)]


def _texts(values: Sequence[AnswerValue]) -> list[str]:
    return [value for value in values if isinstance(value, str)]
