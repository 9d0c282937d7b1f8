"""Answers as the files that GLUE and SQuAD take, and the average that GLUE ranks by."""

import json
from collections.abc import Mapping, Sequence
from statistics import mean

from bertc.data.layouts.example import Example
from bertc.ir.learning.task import GlueName
from bertc.tasks.gold import Given
from bertc.tasks.spans import Decoded

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
MISMATCHED = "MNLI-mm.tsv"
"""The second test part of MNLI."""

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
"""What the leaderboard ranks by; AX is shown there and does not count."""


def glue(task: GlueName, answers: Sequence[Given], mismatched: bool = False) -> dict[str, str]:
    """The file for gluebenchmark.com, its text by its name, for one answer to each row of a test.

    Labels are spelled as in the task's own files. Scores of STS-B are kept from 0 to 5.
    """
    rows = [f"{index}\t{_told(answer)}" for index, answer in enumerate(answers)]
    name = MISMATCHED if mismatched else GLUE_FILES[task]
    return {name: "\n".join(["index\tprediction", *rows, ""])}


def _told(answer: Given) -> str:
    return answer if isinstance(answer, str) else f"{min(max(answer, 0.0), 5.0):.3f}"


def squad(
    examples: Sequence[Example], decoded: Sequence[Decoded], unanswerable: bool
) -> dict[str, str]:
    """Files of SQuAD, their text by their name: the answers, which the official script judges, the
    likeliest answers of each question and, for SQuAD 2.0, how much none is preferred.

    For the script's ``--na-prob-file``: it wants answers that are never withheld, ``likeliest``,
    which a ``threshold`` of infinity makes all of ``predictions.json``.
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
    """The mean over tasks, by name, of each one's mean over the metrics it is ranked by.

    ``mnli-mm`` is the mismatched part of ``mnli``, with which it makes one task. With ``wnli`` it
    is the leaderboard's figure of nine tasks, without it that of the eight which most papers have
    (BERT's Table 1 counts both parts of MNLI, and one metric of each). Others, ``ax`` too, do not
    count.

    Raises:
        ValueError: if there is no task of GLUE.
    """
    means = {
        task: mean(
            scores[part][metric] for part in _parts(task) if part in scores for metric in metrics
        )
        for task, metrics in GLUE_METRICS.items()
        if any(part in scores for part in _parts(task))
    }
    if not means:
        raise ValueError("no scores of a task of GLUE")
    return mean(means.values())


def _parts(task: GlueName) -> tuple[str, ...]:
    return ("mnli", "mnli-mm") if task == "mnli" else (task,)
