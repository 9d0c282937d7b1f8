"""Answers to questions about passages, judged as SQuAD's two scripts do.

Axes: q questions.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertc.data.examples import Asked
from bertc.tasks.gold import gold

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Kind = Literal["em", "squad_f1"]


def words(text: str) -> list[str]:
    """What is compared of an answer: small letters, without ASCII punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split()


def agreement(
    questions: Sequence[Asked], answers: Sequence[str], unanswerable: bool
) -> dict[str, NDArray[np.float64]]:
    """``em`` and ``squad_f1`` (q,) of each answer with the right one it is nearest to.

    Answers of no words, once articles and punctuation are gone, agree with each other, and where
    there is no answer they are right. Where a question may have none, right answers of no words do
    not count beside others, as in the script of SQuAD 2.0.

    Raises:
        DataError: if a question does not say what is right.
    """
    pairs = [
        _nearest(_right(question, unanswerable), words(answer))
        for question, answer in zip(questions, answers, strict=True)
    ]
    em_q, f1_q = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return {"em": em_q, "squad_f1": f1_q}


def _right(question: Asked, unanswerable: bool) -> list[list[str]]:
    known = gold(question)
    assert isinstance(known, tuple), "a question has a tuple of answers"
    right = [words(text) for text in known]
    if unanswerable:
        right = [answer for answer in right if answer]
    return right or [[]]


def _nearest(right: list[list[str]], answer: list[str]) -> tuple[float, float]:
    return float(answer in right), max(_f1(one, answer) for one in right)


def _f1(right: list[str], answer: list[str]) -> float:
    if not (right or answer):
        return 1.0
    shared = sum((Counter(right) & Counter(answer)).values())
    return 2 * shared / (len(right) + len(answer))


def by_answered(questions: Sequence[Asked], answers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Figures of SQuAD 2.0 apart for questions that have an ``answer`` and that have ``none``.

    A kind of question that does not occur is left out.
    """
    values = agreement(questions, answers, unanswerable=True)
    answered_q = _answered(questions)
    return {
        name: {metric: float(value_q[among_q].mean()) for metric, value_q in values.items()}
        for name, among_q in (("answer", answered_q), ("none", ~answered_q))
        if among_q.any()
    }


@dataclass(frozen=True)
class Best:
    """The threshold above which it is best to give no answer, and the score that is reached."""

    score: float
    threshold: float


def best_threshold(
    questions: Sequence[Asked], answers: Sequence[str], odds_q: Sequence[float], metric: Kind
) -> Best:
    """Where to set ``threshold``, given answers that are never withheld and their null odds.

    It is found by looking at what is right, so its score (``best_f1``, ``best_exact`` of the
    official script) is a bound, not a result.
    """
    value_q = agreement(questions, answers, unanswerable=True)[metric]
    order_q = np.argsort(np.asarray(odds_q, dtype=np.float64), kind="stable")
    odds = np.asarray(odds_q, dtype=np.float64)[order_q]
    withheld_q = (~_answered(questions)).astype(np.float64)[order_q]
    # What is reached when the first n questions are answered and the others are not.
    reached_n = withheld_q.sum() + np.cumsum(value_q[order_q] - withheld_q)
    reached_n = np.concatenate([[withheld_q.sum()], reached_n])
    threshold_n = np.concatenate([[np.nextafter(odds[0], -np.inf)], odds])
    # Questions of the same odds are answered together or not at all.
    possible_n = np.append(threshold_n[1:] > threshold_n[:-1], True)
    best = int(np.argmax(np.where(possible_n, reached_n, -1.0)))
    return Best(float(reached_n[best]) / len(odds), float(threshold_n[best]))


def _answered(questions: Sequence[Asked]) -> NDArray[np.bool_]:
    return np.array([bool(question.answers) for question in questions])
