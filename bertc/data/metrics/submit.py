"""Submission files of GLUE and SQuAD, and the average that GLUE ranks by."""

import json
from collections.abc import Mapping, Sequence
from statistics import mean

from bertc.data.layouts.example import Example
from bertc.data.metrics.gold import AnswerValue
from bertc.data.metrics.spans import Decoded
from bertc.ir.learning.task import GlueName

GLUE_FILES: dict[GlueName, str] = {
    "cola": "CoLA.tsv",
    "sst2": "SST-2.tsv",
    "mrpc": "MRPC.tsv",
    "stsb": "STS-B.tsv",
    "qqp": "QQP.tsv",
    "mnli": "MNLI-m.tsv",
    "qnli": "QNLI.tsv",
    "rte": "RTE.tsv",
    "wnli": "WNLI.tsv",
    "ax": "AX.tsv",
}

GLUE_METRICS: dict[GlueName, tuple[str, ...]] = {
    "cola": ("mcc",),
    "sst2": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "stsb": ("pearson", "spearman"),
    "qqp": ("accuracy", "f1"),
    "mnli": ("accuracy",),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
}
"""The metrics that the leaderboard ranks by; AX is shown there and does not count."""


def glue(task: GlueName, answers: Sequence[AnswerValue]) -> dict[str, str]:
    """The file for gluebenchmark.com, name to text, from an answer for each row of a test part."""
    spelled = (a if isinstance(a, str) else f"{min(max(a, 0.0), 5.0):.3f}" for a in answers)
    rows = [f"{index}\t{answer}" for index, answer in enumerate(spelled)]
    return {GLUE_FILES[task]: "\n".join(["index\tprediction", *rows, ""])}


def squad(
    examples: Sequence[Example], decoded: Sequence[Decoded], unanswerable: bool
) -> dict[str, str]:
    """The files for SQuAD, name to text: answers, n-best answers and, for 2.0, null odds.

    The official script reads ``predictions.json``. With ``--na-prob-file`` it expects answers that
    are never withheld: decode with an infinite ``threshold`` for that.
    """
    by_key = dict(zip((example.key for example in examples), decoded, strict=True))
    files: dict[str, object] = {
        "predictions.json": {key: answer.text for key, answer in by_key.items()},
        "nbest_predictions.json": {
            key: [vars(candidate) for candidate in answer.best] for key, answer in by_key.items()
        },
    }
    if unanswerable:
        files["null_odds.json"] = {key: answer.odds for key, answer in by_key.items()}
    return {name: json.dumps(content, indent=4) + "\n" for name, content in files.items()}


def glue_average(scores: Mapping[str, Mapping[str, float]]) -> float:
    """GLUE's average: the mean over tasks of the mean over a task's metrics.

    ``mnli-mm`` is the mismatched part of ``mnli``, with which it makes one task. With ``wnli`` it
    is the leaderboard's figure of nine tasks, without it that of the eight which most papers have
    (BERT's Table 1 counts both parts of MNLI, and one metric of each). Others, ``ax`` too, do not
    count.
    """
    means = []
    for task, metrics in GLUE_METRICS.items():
        parts = [scores[part] for part in (task, f"{task}-mm") if part in scores]
        if parts:
            means.append(mean(part[metric] for part in parts for metric in metrics))
    return mean(means)
