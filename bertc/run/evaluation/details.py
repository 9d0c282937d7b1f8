"""Details of an evaluation: calibration, thresholds, and the worst mistakes.

Axes: n examples, c labels.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import CannotWriteError, listed
from bertc.base.storage import durable
from bertc.base.storage.json_file import read_json
from bertc.base.storage.paths import is_file
from bertc.data.layouts.example import Example, TextExample
from bertc.data.metrics.calibration import (
    NO_FIT,
    HeadFit,
    LabelScores,
    expected_error,
    fitted,
    probabilities,
)
from bertc.data.metrics.gold import gold
from bertc.data.metrics.metrics import judge
from bertc.ir.learning.answer import Several, told_names
from bertc.ir.learning.custom_task import AnyTask
from bertc.model import Model
from bertc.run.evaluation.answers import Answers, several_answers

CALIBRATION = "calibration.json"
"""Temperature and thresholds of each task of a run, as ``bertc eval`` fitted them on dev."""
LARGEST_CALIBRATION_BYTES = 16 << 20
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
        self, model: Model, task: AnyTask, part: str, examples: Sequence[Example], answers: Answers
    ) -> None:
        """Add what the answers to a part show."""
        if answers.scores is None or not told_names(task.answer):
            return
        where, several = f"{task.title} {part}", isinstance(task.answer, Several)
        right_nc = _right(task, examples)
        fit = fit_of(self.run, model, task.title)
        if self.fits:
            fit = fitted(answers.scores, right_nc, several)
            self._write(model, task.title, fit)
        parts_nc = probabilities(answers.scores, several, NO_FIT)
        errors = [
            expected_error(probabilities(answers.scores, several, of), right_nc, several)
            for of in (NO_FIT, fit)
        ]
        line = f"{where}: calibration error {errors[0]:.3f}"
        if fit != NO_FIT:
            on = "fitted here" if self.fits else "of dev"
            line += f", {errors[1]:.3f} with the temperature {fit.temperature:.2f} {on}"
        self.notes.append(line)
        if isinstance(task.answer, Several) and fit.thresholds:
            after = several_answers(task.answer, answers.scores, fit).given
            scores = judge(task, examples, after)
            names = zip(task.answer.names, fit.thresholds, strict=True)
            at = ", ".join(f"{name} {least:.4g}" for name, least in names)
            told = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            self.notes.append(f"{where}: {told} with the thresholds {at}")
            self.notes += _alike(where, task.answer.names, parts_nc)
        self.notes += _worst(where, examples, answers, np.abs(parts_nc - right_nc).max(1))

    def _write(self, model: Model, title: str, fit: HeadFit) -> None:
        known = _read(self.run) | {title: {"head": head_digest(model, title), **asdict(fit)}}
        try:
            durable.replace(self.run / CALIBRATION, json.dumps(known, indent=1).encode())
        except CannotWriteError as error:
            self.notes.append(f"not saved for predictions: {error.message}")


def fit_of(run: Path, model: Model, title: str) -> HeadFit:
    """The fit of a task's head by ``bertc eval``; none after more training, or without one."""
    known = _read(run).get(title)
    if not isinstance(known, dict) or known.get("head") != head_digest(model, title):
        return NO_FIT
    return HeadFit(float(known["temperature"]), tuple(map(float, known["thresholds"])))


def _read(run: Path) -> dict[str, Any]:
    path = run / CALIBRATION
    known = read_json(path, LARGEST_CALIBRATION_BYTES) if is_file(path) else {}
    return known if isinstance(known, dict) else {}


def head_digest(model: Model, title: str) -> str:
    """sha256 of the weights of a task's head."""
    total = hashlib.sha256()
    for tensor in model.heads[title].state_dict().values():
        total.update(tensor.detach().float().cpu().numpy().tobytes())
    return total.hexdigest()


def _right(task: AnyTask, examples: Sequence[Example]) -> LabelScores:
    """1 at the labels of each example, else 0 (n, c)."""
    names = told_names(task.answer)
    golds = [gold(example) for example in examples]
    sets = [known if isinstance(known, tuple) else (known,) for known in golds]
    return np.array([[float(name in known) for name in names] for known in sets])


def _alike(of: str, names: Sequence[str], parts_nc: LabelScores) -> list[str]:
    """A remark on labels of about one probability, which no threshold separates."""
    alike = [n for n, p_n in zip(names, parts_nc.T, strict=True) if np.ptp(p_n) < ALIKE]
    said = f"all examples have about one probability of {listed(alike)}, whatever the threshold"
    return [f"{of}: {said}: train for longer"] if alike else []


def _worst(of: str, examples: Sequence[Example], answers: Answers, off_n: LabelScores) -> list[str]:
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
