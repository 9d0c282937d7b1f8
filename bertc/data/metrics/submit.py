"""Submission files of GLUE and SQuAD."""

import json
from collections.abc import Sequence

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


def glue(task: GlueName, answers: Sequence[AnswerValue]) -> dict[str, str]:
    """The file for gluebenchmark.com, name to text, from an answer for each row of a test part."""
    spelled = (a if isinstance(a, str) else f"{min(max(a, 0.0), 5.0):.3f}" for a in answers)
    rows = [f"{index}\t{answer}" for index, answer in enumerate(spelled)]
    return {GLUE_FILES[task]: "\n".join(["index\tprediction", *rows, ""])}


def squad(
    examples: Sequence[Example], decoded: Sequence[Decoded], unanswerable: bool
) -> dict[str, str]:
    """The files for SQuAD, name to text: answers, n-best answers and, for 2.0, null odds."""
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
