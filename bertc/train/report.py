"""The report of a run or of an evaluation, as text and as JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bertc.estimate.beside import PartBeside, beside_table
from bertc.estimate.units import several
from bertc.evaluation.held_out import Evaluation, always_lines
from bertc.host.display import clock
from bertc.ir.learning.objective import PRETRAINING

LARGEST_SHOWN = 50.0
"""Nats above which a perplexity is shown as infinite."""


@dataclass(frozen=True)
class Report:
    """The end of a run, or of an evaluation of one; ``notes`` are further sentences.

    ``where`` has the parts of a step by stage, of those that were profiled.
    """

    folder: Path
    step: int
    steps: int
    tokens: int
    seconds: float
    evaluation: Evaluation | None
    notes: tuple[str, ...] = ()
    where: Mapping[str, tuple[PartBeside, ...]] = field(default_factory=dict)

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self), "folder": str(self.folder)}, indent=1)

    def summary(self, evaluated_only: bool = False) -> str:
        """A table of held-out losses or scores, and a line on the run or the evaluation."""
        console = Console(width=100, highlight=False, no_color=True)
        with console.capture() as captured:
            if self.evaluation is not None:
                if self.evaluation.scores:
                    console.print(_scores(self.evaluation))
                    for (task, part), same in always_lines(self.evaluation).items():
                        console.print(f"{task} {part}: {same}", markup=False, soft_wrap=True)
                else:
                    console.print(_table(self.evaluation))
                if self.evaluation.languages:
                    console.print(_by_language(self.evaluation))
                for name, loss in self.evaluation.losses.items():
                    if name in PRETRAINING and PRETRAINING[name].order == "forward":
                        console.print(_as_told(loss), markup=False)
            if self.step:
                line = f"{self.folder} after step {self.step:,} of {self.steps:,}"
                console.print(
                    line if evaluated_only else self._line(), markup=False, soft_wrap=True
                )
            for stage, rows in self.where.items():
                table = beside_table(f"stage {stage}", rows)
                console.print(f"\n{table}\n", markup=False, soft_wrap=True)
            for note in self.notes:
                console.print(note, markup=False, soft_wrap=True)
        return captured.get().rstrip()

    def _line(self) -> str:
        speed = f", {self.tokens / self.seconds:,.0f} tokens/s" if self.seconds else ""
        return (
            f"{self.step:,} of {self.steps:,} steps, {self.tokens:,} tokens "
            f"in {clock(self.seconds)}{speed}: {self.folder}"
        )


def _as_told(nats: float) -> str:
    """A next-token loss as perplexity and bits a token."""
    perplexity = math.exp(nats) if nats < LARGEST_SHOWN else math.inf
    return f"perplexity {perplexity:,.2f}, {nats / math.log(2):.3f} bits a token"


def _table(evaluation: Evaluation) -> Table:
    table = Table(
        title=f"held out, {several(evaluation.examples, 'example')}", title_justify="left"
    )
    table.add_column("objective")
    for heading in ("loss", "unigram", "below it", "accuracy"):
        table.add_column(heading, justify="right")
    if evaluation.base_rate:
        table.add_column("base rate", justify="right")
    for name, loss in evaluation.losses.items():
        unigram, base = evaluation.unigram_losses.get(name), evaluation.base_rate.get(name)
        table.add_row(
            name,
            f"{loss:.3f}",
            "" if unigram is None else f"{unigram:.3f}",
            "" if unigram is None else f"{unigram - loss:.3f}",
            f"{evaluation.accuracy[name]:.1%}" if name in evaluation.accuracy else "",
            *(["" if base is None else f"{base:.1%}"] if evaluation.base_rate else []),
        )
    return table


def _scores(evaluation: Evaluation) -> Table:
    table = Table(
        title=f"scored on {several(evaluation.examples, 'example')}", title_justify="left"
    )
    parts = [
        (t, p, scores) for t, by_part in evaluation.scores.items() for p, scores in by_part.items()
    ]
    metrics = dict.fromkeys(metric for _, _, scores in parts for metric in scores)
    for heading in ("task", "part"):
        table.add_column(heading)
    for heading in (*metrics, "loss"):
        table.add_column(heading, justify="right")
    for task, part, scores in parts:
        cells = (f"{scores[metric]:.4f}" if metric in scores else "" for metric in metrics)
        table.add_row(task, part, *cells, f"{evaluation.losses[task]:.3f}")
    return table


def _by_language(evaluation: Evaluation) -> Table:
    table = Table(title="loss by language", title_justify="left")
    table.add_column("language")
    for name in evaluation.losses:
        table.add_column(name, justify="right")
    for language, losses in evaluation.languages.items():
        cells = (f"{losses[n]:.3f}" if n in losses else "" for n in evaluation.losses)
        table.add_row(language, *cells)
    return table
