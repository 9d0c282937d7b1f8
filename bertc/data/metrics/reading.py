"""Exact match and F1 of answers about passages, as in SQuAD's two scripts.

Axes: q questions.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertc.data.layouts.example import QuestionExample
from bertc.data.metrics.gold import gold

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_words(text: str) -> list[str]:
    """The words compared in an answer: lower case, without ASCII punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split()


def agreement(
    questions: Sequence[QuestionExample], answers: Sequence[str], unanswerable: bool
) -> dict[str, NDArray[np.float64]]:
    """``em`` and ``squad_f1`` (q,) of each answer against its nearest gold answer.

    Answers without words, once articles and punctuation are gone, agree with each other, and are
    right where there is no answer. If a question may have none (``unanswerable``), gold answers
    without words are ignored if there are others, as in the script of SQuAD 2.0.
    """
    pairs = [
        _nearest(_right(question, unanswerable), answer_words(answer))
        for question, answer in zip(questions, answers, strict=True)
    ]
    em_q, f1_q = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return {"em": em_q, "squad_f1": f1_q}


def _right(question: QuestionExample, unanswerable: bool) -> list[list[str]]:
    known = gold(question)
    assert isinstance(known, tuple), "a question has a tuple of answers"
    right = [answer_words(text) for text in known]
    if unanswerable:
        right = [answer for answer in right if answer]
    return right or [[]]


def _nearest(right: list[list[str]], answer: list[str]) -> tuple[float, float]:
    return float(answer in right), max(_f1(gold_words, answer) for gold_words in right)


def _f1(right: list[str], answer: list[str]) -> float:
    if not (right or answer):
        return 1.0
    shared = sum((Counter(right) & Counter(answer)).values())
    return 2 * shared / (len(right) + len(answer))
