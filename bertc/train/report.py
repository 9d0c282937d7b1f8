"""The report of a run or of an evaluation, as text and as JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bertc.diagnostics import html_lines, html_table, several
from bertc.estimate.beside import PartBeside, beside_table
from bertc.evaluation.held_out import Evaluation
from bertc.evaluation.reading import NextTokenCost, as_told
from bertc.evaluation.remarks import always_lines
from bertc.host.display import clock
from bertc.ir.learning.objective import PRETRAINING, titled
from bertc.ir.terms.positions import shown_figures


@dataclass(frozen=True)
class Report:
    """The end of a run, or of an evaluation of one; ``notes`` are further sentences.

    ``where`` has the parts of a step by stage, of those that were profiled; ``reading`` is of an
    evaluation of next tokens.
    """

    folder: Path
    step: int
    steps: int
    tokens: int
    seconds: float
    evaluation: Evaluation | None
    notes: tuple[str, ...] = ()
    where: Mapping[str, tuple[PartBeside, ...]] = field(default_factory=dict)
    reading: NextTokenCost | None = None

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self), "folder": str(self.folder)}, indent=1)

    def as_table(self) -> str:
        """The summary of an evaluation."""
        return self.summary(evaluated_only=True)

    def summary(self, evaluated_only: bool = False) -> str:
        """A table of held-out losses or scores, and a line on the run or the evaluation."""
        console = Console(width=100, highlight=False, no_color=True, markup=False, emoji=False)
        with console.capture() as captured:
            if self.evaluation is not None:
                for lines in _tables(self.evaluation):
                    console.print(_drawn(lines))
                for (task, part), same in always_lines(self.evaluation).items():
                    console.print(f"{task} {part}: {same}", soft_wrap=True)
                for name, loss in self.evaluation.losses.items():
                    if name in PRETRAINING and PRETRAINING[name].order == "forward":
                        line = self.reading.told() if self.reading else as_told(loss)
                        console.print(line, soft_wrap=True)
            if self.step:
                line = f"{self.folder} after step {self.step:,} of {self.steps:,}"
                console.print(
                    line if evaluated_only else self._line(), markup=False, soft_wrap=True
                )
            for stage, rows in self.where.items():
                table = beside_table(f"stage {stage}", rows)
                console.print(f"\n{table}\n", soft_wrap=True)
            for note in self.notes:
                console.print(note, soft_wrap=True)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        """The tables of the summary as HTML, for notebooks."""
        tables = _tables(self.evaluation) if self.evaluation else []
        notes = html_lines("\n".join([self._line(), *self.notes]))
        return "\n".join([*(html_table(t.title, t.head, t.rows) for t in tables), notes])

    def _line(self) -> str:
        speed = f", {self.tokens / self.seconds:,.0f} tokens/s" if self.seconds else ""
        return (
            f"{self.step:,} of {self.steps:,} steps, {self.tokens:,} tokens "
            f"in {clock(self.seconds)}{speed}: {self.folder}"
        )


class Lines(NamedTuple):
    """A table as text: its title, headings, and rows; the first ``names`` columns are words."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1


def _drawn(lines: Lines) -> Table:
    """The table for a terminal."""
    table = Table(title=lines.title, title_justify="left")
    for number, heading in enumerate(lines.head):
        table.add_column(heading, justify="left" if number < lines.names else "right")
    for row in lines.rows:
        table.add_row(*row)
    return table


def _tables(evaluation: Evaluation) -> list[Lines]:
    """The scores of tasks, or the losses of other objectives; losses by language."""
    first = _scores(evaluation) if evaluation.scores else _losses(evaluation)
    languages = [_by_language(evaluation)] if evaluation.languages else []
    return [first, *languages, *_by_class(evaluation)]


def _losses(evaluation: Evaluation) -> Lines:
    rows = []
    for name in dict.fromkeys((*shown_figures(evaluation.losses), *evaluation.positions)):
        loss = evaluation.losses[name]
        unigram, base = evaluation.unigram_losses.get(name), evaluation.base_rate.get(name)
        cells = (
            titled(name),
            f"{loss:.3f}",
            "" if unigram is None else f"{unigram:.3f}",
            "" if unigram is None else f"{unigram - loss:.3f}",
            f"{evaluation.accuracy[name]:.1%}" if name in evaluation.accuracy else "",
        )
        rated = ("" if base is None else f"{base:.1%}",) if evaluation.base_rate else ()
        rows.append((*cells, *rated))
    head = ("objective", "loss", "unigram", "below it", "accuracy")
    rated = ("base rate",) if evaluation.base_rate else ()
    title = f"held out, {several(evaluation.examples, 'example')}"
    return Lines(title, (*head, *rated), tuple(rows))


def _scores(evaluation: Evaluation) -> Lines:
    parts = [
        (t, p, scores) for t, by_part in evaluation.scores.items() for p, scores in by_part.items()
    ]
    metrics = dict.fromkeys(metric for _, _, scores in parts for metric in scores)
    rows = tuple(
        (
            task,
            part,
            *(f"{scores[metric]:.4f}" if metric in scores else "" for metric in metrics),
            f"{evaluation.losses[task]:.3f}",
        )
        for task, part, scores in parts
    )
    title = f"scored on {several(evaluation.examples, 'example')}"
    return Lines(title, ("task", "part", *metrics, "loss"), rows, names=2)


def _by_class(evaluation: Evaluation) -> Iterator[Lines]:
    for task, parts in evaluation.classes.items():
        for part, scores in parts.items():
            rows = [
                (name, f"{of.precision:.4f}", f"{of.recall:.4f}", f"{of.f1:.4f}", f"{of.support:,}")
                for name, of in scores.classes.items()
            ]
            macro = ("mean (macro F1)", "", "", f"{scores.macro_f1:.4f}", "")
            head = ("class", "precision", "recall", "F1", "support")
            yield Lines(f"{task} {part} by class", head, (*rows, macro))


def _by_language(evaluation: Evaluation) -> Lines:
    names = shown_figures(evaluation.losses)
    rows = tuple(
        (language, *(f"{losses[n]:.3f}" if n in losses else "" for n in names))
        for language, losses in evaluation.languages.items()
    )
    return Lines("loss by language", ("language", *map(titled, names)), rows)
