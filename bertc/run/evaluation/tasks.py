"""Evaluation of tasks: answers of a model to the scored parts, their metrics, and details of these.

Axes: n examples, c labels.
"""

import math
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import CannotWriteError, several
from bertc.ir.learning import AnyTask, NamedSpans, Score, Several, Tags, Vector, label_names
from bertc.ir.program import Stage
from bertc.machine.signals import Stop
from bertc.model import Model
from bertc.run.evaluation.answers import Answers, several_answers
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.task_inference import Within, answer
from bertc.run.evaluation.task_lookup import columns_told, names_files, nothing_to_judge_by, task_of
from bertc.run.models.loading import load, place_on_device
from bertc.run.records.calibration import fit_of_head, thresholds, write_fit
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import TaskData, TaskSet
from bertc.tasks.examples.task_rows import notes_on_cuts
from bertc.tasks.examples.task_sets import draw_scored_sample
from bertc.tasks.layouts.example import AnswerValue, Examples, TextExample, asked, gold
from bertc.tasks.layouts.parts import read_examples, scored_parts
from bertc.tasks.layouts.table import source_name
from bertc.tasks.metrics import calibration
from bertc.tasks.metrics.calibration import LabelScores
from bertc.tasks.metrics.metrics import AnswerValues, ByClass, by_class, judge
from bertc.tasks.metrics.spans import named_tags, named_threshold
from bertc.text.cache.store import Progress, Silent
from bertc.text.vocab.vocabulary import vocabulary_of

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
        if isinstance(task.answer, NamedSpans):
            self._see_named(model, task, part, examples, answers)
        if answers.scores is None or not label_names(task.answer):
            return
        where, several = f"{task.title} {part}", isinstance(task.answer, Several)
        right_nc = _right(task, examples)
        fit = fit_of_head(self.run, model, task.title)
        if self.fits:
            fit = calibration.fitted(answers.scores, right_nc, several)
            self._write(model, task, fit)
        fits = calibration.NO_FIT, fit
        parts = [calibration.probabilities(answers.scores, several, head_fit) for head_fit in fits]
        errors = [calibration.expected_error(of_nc, right_nc, several) for of_nc in parts]
        line = f"{where}: calibration error {errors[0]:.3f}"
        if fit.temperature != 1:
            on = "fitted here, for predict and export" if self.fits else "of dev"
            line += f", {errors[1]:.3f} with the temperature {fit.temperature:.2f} {on}"
        self.notes.append(line)
        if isinstance(task.answer, Several) and fit.thresholds:
            scores = judge(task, examples, several_answers(task.answer, answers.scores, fit).given)
            figures = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            self.notes.append(f"{where}: {figures} with the thresholds {thresholds(task, fit)}")
        self.notes += _worst(where, examples, answers, np.abs(parts[0] - right_nc).max(1))

    def _write(self, model: Model, task: AnyTask, fit: calibration.HeadFit) -> None:
        try:
            write_fit(self.run, model, task.title, fit)
        except CannotWriteError as error:
            self.notes.append(f"not saved for predictions: {error.message}")

    def _see_named(
        self, model: Model, task: AnyTask, part: str, examples: Examples, answers: Answers
    ) -> None:
        """Add the score with the threshold of the best F1, or with that of dev."""
        fit = fit_of_head(self.run, model, task.title)
        if self.fits:
            fit = calibration.HeadFit(thresholds=(named_threshold(examples, answers.named),))
            self._write(model, task, fit)
        if fit.thresholds:
            (score,) = judge(task, examples, [*named_tags(examples, answers.named, fit)]).values()
            said = f"span_f1 {score:.4f} with the threshold {fit.thresholds[0]:.4g} of dev"
            self.notes.append(f"{task.title} {part}: {said}")


def _right(task: AnyTask, examples: Examples) -> LabelScores:
    """1 at the labels of each example, else 0 (n, c)."""
    names = label_names(task.answer)
    golds = [gold(example) for example in examples]
    sets = [known if isinstance(known, tuple) else (known,) for known in golds]
    return np.array([[float(name in known) for name in names] for known in sets])


def _worst(where: str, examples: Examples, answers: Answers, off_n: LabelScores) -> list[str]:
    """A line for each of the mistakes that are off the most."""
    lines = list[str]()
    for number in np.argsort(-off_n, kind="stable").tolist():
        example, known, answer = examples[number], gold(examples[number]), answers.given[number]
        if _named(known) == _named(answer) or len(lines) == WORST:
            break
        text = " | ".join(example.texts) if isinstance(example, TextExample) else example.key
        excerpt = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        lines.append(
            f"{where}: row {example.key} is {_named(known)}, answered {_named(answer)}, off by "
            f"{off_n[number]:.2f}: {' '.join(excerpt.split())}"
        )
    return lines


def _named(answer: Any) -> str:
    return " and ".join(sorted(answer)) or "nothing" if isinstance(answer, tuple) else str(answer)


ALIKE, OF_COSINES = 0.05, 0.2
"""Below this share of the deviation of right numbers, or of cosines, answers are one."""


def evaluate_tasks(
    model: Model,
    stage: Stage,
    data: TaskData,
    stop: Stop | None = None,
    within: Within = lambda function: function,
    progress: Progress | None = None,
    details: Details | None = None,
) -> Evaluation:
    """Evaluate on every scored part of every task; with several processes each does all of it."""
    losses, accuracy, scores, always, total = {}, {}, {}, dict[str, dict[str, str]](), 0
    classes: dict[str, dict[str, ByClass]] = {}
    progress = progress or Silent()
    for task_set in data.sets:
        task, title, by_part, parts = task_set.task, task_set.task.title, {}, []
        for part, (examples, rows) in task_set.parts.items():
            total += (count := len(asked(examples)))
            what = f"answering {several(count, 'example')} of {title} {part}"
            progress.begin(what, len(rows.owners), "rows")
            pad = data.vocabulary.pad
            answers = answer(
                model, stage, task_set, examples, rows, pad, stop, within=within, progress=progress
            )
            progress.end()
            by_part[part] = judge(task, examples, answers.given) | answers.terms
            if (by_label := by_class(task, examples, answers.given)) is not None:
                classes.setdefault(title, {})[part] = by_label
            if details:
                details.see(model, task, part, examples, answers)
            if (only := only_answer(task, examples, answers.given)) is not None:
                always.setdefault(title, {})[part] = only
            parts.append((len(examples), answers))
        if parts:
            count = sum(size for size, _ in parts)
            losses[title] = math.fsum(size * a.loss for size, a in parts) / count
            if not isinstance(task.answer, Score) or task.answer.logistic:
                accuracy[title] = math.fsum(size * a.accuracy for size, a in parts) / count
            scores[title] = by_part
    # A task that is learned from a teacher alone weighs nothing, and its loss is told all the same.
    weights = {term.name: term.weight or 1.0 for term in stage.objective}
    loss = math.fsum(weights[name] * value for name, value in losses.items())
    return Evaluation(loss, losses, accuracy, total, scores=scores, always=always, classes=classes)


def only_answer(task: AnyTask, examples: Examples, answers: AnswerValues) -> str | None:
    """The answer that all of several examples got, "" for none; None if they differ.

    Numbers are one if they hardly vary (``ALIKE``); of several numbers those that do not are named.
    """
    node, first = task.answer, answers[0]
    if len(answers) < 2 or (isinstance(node, Vector) and not isinstance(first, float)):
        return None  # of vectors without a score it is how many are nearer
    if isinstance(node, Score | Vector):
        return _only_numbers(node, examples, answers)
    distinct: set[AnswerValue] = {*answers}
    if isinstance(node, Tags | NamedSpans):
        distinct = {tag for tags in answers if isinstance(tags, tuple) for tag in tags}
    if len(distinct) != 1:
        return None
    (only,) = distinct
    return ", ".join(map(str, only)) if isinstance(only, tuple) else str(only)


def _only_numbers(node: Score | Vector, examples: Examples, answers: AnswerValues) -> str | None:
    values_nk = np.array(answers, dtype=float).reshape(len(answers), -1)
    names: tuple[str, ...] = ("",)
    usual_k = np.array([OF_COSINES])
    if isinstance(node, Score):
        right_nk = np.array([gold(example) for example in examples], dtype=float)
        names, usual_k = node.names or names, right_nk.reshape(values_nk.shape).std(0)
    alike_k = values_nk.std(0) < ALIKE * usual_k
    alike = compress(zip(names, values_nk.min(0), values_nk.max(0), strict=True), alike_k)
    shown = ((name, f"{low:.4g}", f"{high:.4g}") for name, low, high in alike)
    about = (f"{n} {f'about {a}' if a == b else f'between {a} and {b}'}" for n, a, b in shown)
    return ", ".join(map(str.strip, about)) or None


def evaluate_files(
    run: Path,
    request: str,
    *,
    part: str = "",
    most: int = 0,
    within: Within = lambda function: function,
    progress: Progress | None = None,
    details: Details | None = None,
) -> tuple[Evaluation, tuple[str, ...]]:
    """Evaluate a model on the scored parts of a task; also returns notes on the files read."""
    model = load(run)
    stage, task = task_of(model.resolved, request)
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    seq, kinds = stage.seq, (stage.encoder.kinds_of_segments, stage.encoder.causal)
    sources, rows, notes = scored_parts(task, part, names_files(request)), {}, []
    if not sources:
        raise nothing_to_judge_by(task)
    for name, source in sources.items():
        with columns_told(task, with_labels=True):
            known = read_examples(task, source)
        scored = draw_scored_sample(task, name, known, most)
        read = encode(task.judged, scored, vocabulary, seq, *kinds)
        rows[name] = scored, read
        notes.append(_read_from(task, name, source_name(source.source), len(scored), len(known)))
        lost = notes_on_cuts(task, read, len(scored), f"{name} ", seq)
        notes += [f"{task.title}: {note}" for note in lost]
    place_on_device(model, "auto")
    task_set = TaskSet(task, encode(task, (), vocabulary, seq, *kinds), rows)
    terms = tuple(term for term in stage.objective if term.name == task.title)
    only = stage.model_copy(update={"objective": terms})
    data = TaskData(vocabulary, 0, stage.batch, seq, (task_set,), 1.0)
    evaluation = evaluate_tasks(
        model, only, data, within=within, progress=progress, details=details
    )
    return evaluation, tuple(notes)


def sources_told(data: TaskData) -> tuple[str, ...]:
    """The source file of each part of every task, a line each."""
    return tuple(
        _read_from(part.task, name, source_name(scored_parts(part.task)[name].source), len(scored))
        for part in data.sets
        for name, (scored, _) in part.parts.items()
    )


def _read_from(task: AnyTask, part: str, source: str, count: int, total: int = 0) -> str:
    share = f"{count:,} of " if count < total else ""
    read = share + several(max(count, total), "example")
    where = "" if source == part else f" of {source}"
    return f"{task.title} {part}: {read}{where}"
