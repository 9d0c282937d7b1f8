"""SQuAD's figures beside torchmetrics', and by hand where the two scripts have their corners."""

import numpy as np
import pytest

from bertc.base.diagnostics import DataError
from bertc.data.layouts.example import QuestionExample
from bertc.data.metrics.metrics import judge
from bertc.ir.learning.task import Squad

WORDS = ("the", "a", "An", "Cat", "cat", "cats", "sat,", "-", "(on)", "naïve", "1,000", "it's")


def question(*right: str, key: str = "1") -> QuestionExample:
    return QuestionExample(key, "", "who?", tuple((text, 0) for text in right), bool(right))


def test_answers_are_judged_as_by_torchmetrics() -> None:
    # Importing it takes a second, which every process that collects tests would pay.
    from torchmetrics.functional.text import squad as torchmetrics_squad

    rng = np.random.default_rng(5)

    def text() -> str:
        return " ".join(rng.choice(WORDS, rng.integers(1, 6)))

    for case in range(120):
        right = [[text() for _ in range(rng.integers(1, 4))] for _ in range(case % 3 + 1)]
        said = [text() if rng.random() < 0.7 else golds[0].upper() for golds in right]
        theirs = torchmetrics_squad(
            [{"id": str(q), "prediction_text": one} for q, one in enumerate(said)],
            [
                {"id": str(q), "answers": {"text": golds, "answer_start": [0] * len(golds)}}
                for q, golds in enumerate(right)
            ],
        )
        ours = judge(Squad(data="x"), [question(*golds) for golds in right], said)
        assert ours["em"] == pytest.approx(float(theirs["exact_match"]) / 100, abs=1e-6)
        assert ours["squad_f1"] == pytest.approx(float(theirs["f1"]) / 100, abs=1e-6)


@pytest.mark.parametrize(
    ("version", "right", "said", "em", "f1"),
    [
        (1, ["The Cat"], "cat", 1, 1),
        (1, ["cat"], "  a\tCAT! ", 1, 1),
        (1, ["theatre"], "atre", 0, 0),
        (1, ["an-other"], "other", 0, 0),  # punctuation goes first: "another"
        (1, ["U.S."], "us", 1, 1),
        (1, ["1,000"], "1000", 1, 1),
        (1, ["it’s"], "its", 0, 0),  # only ASCII punctuation is dropped
        (1, ["a b c", "d"], "d", 1, 1),
        (1, ["black cat", "cat"], "cat sat", 0, 2 / 3),
        (1, ["cat cat"], "cat", 0, 2 / 3),
        (1, ["new\u00a0york"], "new york", 1, 1),
        (1, ["new\u2003york\u3000city"], "New York city", 1, 1),
        (1, ["The"], "a", 1, 1),  # both have no words
        (1, ["The", "cat"], "", 1, 1),
        (1, ["cat"], "", 0, 0),
        (2, [], "", 1, 1),
        (2, [], "the", 1, 1),
        (2, [], "cat", 0, 0),
        (2, ["cat"], "", 0, 0),
        (2, ["the", "cat"], "", 0, 0),  # a right answer without words does not count
        (2, ["the"], "", 1, 1),
        (2, ["The Cat"], "cat", 1, 1),
    ],
)
def test_by_hand(version: int, right: list[str], said: str, em: float, f1: float) -> None:
    found = judge(Squad(data="x", version=version), [question(*right)], [said])
    assert found == pytest.approx({"squad_f1": f1, "em": em})


def test_unknown_answers_are_refused() -> None:
    unknown = QuestionExample("q7", "", "who?", (), None)
    with pytest.raises(DataError, match="`q7` has no label"):
        judge(Squad(data="x", version=2), [unknown], [""])
