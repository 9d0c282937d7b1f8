"""Details of an evaluation: calibration, thresholds, and the worst mistakes.

Axes: n examples, c labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import CannotWriteError, listed
from bertc.ir.learning.answer import Several, label_names
from bertc.ir.learning.custom_task import AnyTask
from bertc.model import Model
from bertc.run.evaluation.answers import Answers, several_answers
from bertc.run.records.calibration import fit_of_head, thresholds, write_fit
from bertc.tasks.layouts.example import Examples, TextExample, gold
from bertc.tasks.metrics.calibration import (
    NO_FIT,
    LabelScores,
    expected_error,
    fitted,
    probabilities,
)
from bertc.tasks.metrics.metrics import judge

ALIKE = 0.01
"""Probabilities of a label over all examples that differ by less are alike."""
WORST, SHOWN = 3, 60
"""Mistakes that are shown, and characters of each."""


@dataclass
class Details:
    """Lines about the answers to each part; with ``fits`` the dev part's are fitted."""

    run: Path
    fits: bool
    notes: list[str] = field(default_factory=list)

    def see(
        self, model: Model, task: AnyTask, part: str, examples: Examples, answers: Answers
    ) -> None:
        """Add what the answers to a part show."""
        if answers.scores is None or not label_names(task.answer):
            return
        where, several = f"{task.title} {part}", isinstance(task.answer, Several)
        right_nc = _right(task, examples)
        fit = fit_of_head(self.run, model, task.title)
        if self.fits:
            fit = fitted(answers.scores, right_nc, several)
            try:
                write_fit(self.run, model, task.title, fit)
            except CannotWriteError as error:
                self.notes.append(f"not saved for predictions: {error.message}")
        parts_nc = probabilities(answers.scores, several, NO_FIT)
        errors = [
            expected_error(probabilities(answers.scores, several, of), right_nc, several)
            for of in (NO_FIT, fit)
        ]
        line = f"{where}: calibration error {errors[0]:.3f}"
        if fit.temperature != 1:
            on = "fitted here" if self.fits else "of dev"
            line += f", {errors[1]:.3f} with the temperature {fit.temperature:.2f} {on}"
        self.notes.append(line)
        if isinstance(task.answer, Several) and fit.thresholds:
            after = several_answers(task.answer, answers.scores, fit).given
            scores = judge(task, examples, after)
            told = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            self.notes.append(f"{where}: {told} with the thresholds {thresholds(task, fit)}")
            self.notes += _alike(where, task.answer.names, parts_nc)
        self.notes += _worst(where, examples, answers, np.abs(parts_nc - right_nc).max(1))


def _right(task: AnyTask, examples: Examples) -> LabelScores:
    """1 at the labels of each example, else 0 (n, c)."""
    names = label_names(task.answer)
    golds = [gold(example) for example in examples]
    sets = [known if isinstance(known, tuple) else (known,) for known in golds]
    return np.array([[float(name in known) for name in names] for known in sets])


def _alike(of: str, names: Sequence[str], parts_nc: LabelScores) -> list[str]:
    """A remark on labels of about one probability, which no threshold separates."""
    alike = [n for n, p_n in zip(names, parts_nc.T, strict=True) if np.ptp(p_n) < ALIKE]
    said = f"all examples have about one probability of {listed(alike)}, whatever the threshold"
    return [f"{of}: {said}: train for longer"] if alike else []


def _worst(of: str, examples: Examples, answers: Answers, off_n: LabelScores) -> list[str]:
    """A line for each of the mistakes of which the model was surest."""
    lines = list[str]()
    for at in np.argsort(-off_n, kind="stable").tolist():
        example, known, answer = examples[at], gold(examples[at]), answers.given[at]
        if _named(known) == _named(answer) or len(lines) == WORST:
            break
        text = " | ".join(example.texts) if isinstance(example, TextExample) else example.key
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        lines.append(
            f"{of}: row {example.key} is {_named(known)}, answered {_named(answer)}, off by "
            f"{off_n[at]:.2f}: {' '.join(shown.split())}"
        )
    return lines


def _named(answer: Any) -> str:
    return " and ".join(sorted(answer)) or "nothing" if isinstance(answer, tuple) else str(answer)
