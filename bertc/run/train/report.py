"""The report of a run or of an evaluation, as text and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bertc.base.diagnostics import InNotebooks, Table, several
from bertc.ir.learning.objective import PRETRAINING, titled
from bertc.ir.terms.masking import shown_figures
from bertc.machine.display import clock_text
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.remarks import NextTokenCost, always_lines, as_told
from bertc.tasks.metrics.metrics import f1_interval


@dataclass(frozen=True)
class Report(InNotebooks):
    """The end of a run, or of an evaluation of one; ``notes`` are further sentences.

    ``reading`` is of an evaluation of next tokens, ``details`` are on single answers of tasks.
    """

    folder: Path
    step: int
    steps: int
    tokens: int
    seconds: float
    evaluation: Evaluation | None
    notes: tuple[str, ...] = ()
    reading: NextTokenCost | None = None
    details: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self), "folder": str(self.folder)}, indent=1)

    def as_table(self) -> str:
        """The summary of an evaluation."""
        return self.summary(evaluated_only=True)

    def summary(self, evaluated_only: bool = False) -> str:
        """A table of held-out losses or scores, and a line on the run or the evaluation."""
        lines = [f"{table}\n" for table in self._tables()]
        if self.evaluation is not None:
            for (task, part), same in always_lines(self.evaluation).items():
                lines.append(f"{task} {part}: {same}")
            for name, loss in self.evaluation.losses.items():
                if name in PRETRAINING and PRETRAINING[name].order == "forward":
                    lines.append(self.reading.told() if self.reading else as_told(loss))
        if self.step:
            line = f"{self.folder} after step {self.step:,} of {self.steps:,}"
            lines.append(line if evaluated_only else self._line())
        return "\n".join([*lines, *self.notes, *self.details]).rstrip()

    def tables(self) -> list[Table]:
        """The tables of the summary, with its lines below them."""
        lines = (self._line(), *self.notes, *self.details)
        *first, last = self._tables() or [Table((), ())]
        return [*first, replace(last, notes=lines)]

    def _tables(self) -> list[Table]:
        """The scores of tasks, or the losses of other objectives; losses by language."""
        evaluation = self.evaluation
        if evaluation is None:
            return []
        first = _scores(evaluation) if evaluation.scores else _losses(evaluation)
        names = shown_figures(evaluation.losses)
        rows = [
            (language, *(f"{losses[n]:.3f}" if n in losses else "" for n in names))
            for language, losses in evaluation.languages.items()
        ]
        by_language = Table(("language", *map(titled, names)), rows, "loss by language")
        return [first, *([by_language] if rows else []), *_by_class(evaluation)]

    def _line(self) -> str:
        speed = f", {self.tokens / self.seconds:,.0f} tokens/s" if self.seconds else ""
        return (
            f"{self.step:,} of {self.steps:,} steps, {self.tokens:,} tokens "
            f"in {clock_text(self.seconds)}{speed}: {self.folder}"
        )


def _losses(evaluation: Evaluation) -> Table:
    rows = []
    for name in dict.fromkeys((*shown_figures(evaluation.losses), *evaluation.positions)):
        loss = evaluation.losses[name]
        unigram, base = evaluation.unigram_losses.get(name), evaluation.base_rate.get(name)
        cells = (
            titled(name), f"{loss:.3f}", "" if unigram is None else f"{unigram:.3f}",
            "" if unigram is None else f"{unigram - loss:.3f}",
            f"{evaluation.accuracy[name]:.1%}" if name in evaluation.accuracy else "",
        )  # fmt: skip
        rated = ("" if base is None else f"{base:.1%}",) if evaluation.base_rate else ()
        rows.append((*cells, *rated))
    head = ("objective", "loss", "unigram", "below it", "accuracy")
    rated = ("base rate",) if evaluation.base_rate else ()
    title = f"held out, {several(evaluation.examples, 'example')}"
    return Table((*head, *rated), rows, title)


def _scores(evaluation: Evaluation) -> Table:
    parts = [(t, p, s) for t, by_part in evaluation.scores.items() for p, s in by_part.items()]
    metrics = dict.fromkeys(metric for _, _, scores in parts for metric in scores)
    spread = evaluation.intervals
    ranged = ("95%",) if spread else ()
    rows = tuple(
        (
            task,
            part,
            *(f"{scores[metric]:.4f}" if metric in scores else "" for metric in metrics),
            *("{:.3f} to {:.3f}".format(*spread[task][part]) for _ in ranged),
            f"{evaluation.losses[task]:.3f}",
        )
        for task, part, scores in parts
    )
    title = f"scored on {several(evaluation.examples, 'example')}"
    return Table(("task", "part", *metrics, *ranged, "loss"), rows, title)


def _by_class(evaluation: Evaluation) -> Iterator[Table]:
    for task, parts in evaluation.classes.items():
        for part, scores in parts.items():
            rows = [
                (
                    name,
                    f"{of.precision:.4f}",
                    f"{of.recall:.4f}",
                    f"{of.f1:.4f}",
                    "{:.2f} to {:.2f}".format(*f1_interval(of)),
                    f"{of.support:,}",
                )
                for name, of in scores.classes.items()
            ]
            macro = ("mean (macro F1)", "", "", f"{scores.macro_f1:.4f}", "", "")
            head = ("class", "precision", "recall", "F1", "95%", "support")
            yield Table(head, (*rows, macro), f"{task} {part} by class")
