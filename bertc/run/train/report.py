"""The report of a run or of an evaluation, as text and as JSON, and lines about evaluations."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bertc.base.diagnostics import InNotebooks, Table, several
from bertc.ir.learning.objective import MASKED_LM, PRETRAINING, loss_title
from bertc.ir.program import Stage
from bertc.ir.terms.masking import shown_figures
from bertc.machine.display import clock_text
from bertc.run.evaluation.held_out import Evaluation
from bertc.tasks.metrics.metrics import f1_interval

PLATEAU = 0.2
"""Nats below guessing by token frequency down to which a model knows little else."""
SOONER = {"positions": ("rotary", "rotary positions"), "norm": ("pre", "norm=pre")}
"""Kinds of settings that leave a plateau sooner, and how they are said."""
COLLAPSED = "sparse vectors collapse to zero: raise warmup=, lower the factors or the learning rate"
LARGEST_SHOWN, LARGEST_KNOWN = 50.0, 700.0
"""Nats above which a perplexity is shown as infinite, and above which no float holds it."""


def score_lines(evaluation: Evaluation) -> list[str]:
    """The scores of tasks, one line per part."""
    same = always_lines(evaluation)
    return [
        f"{task} {part}: "
        + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items())
        + (f" ({same[task, part]})" if (task, part) in same else "")
        for task, parts in evaluation.scores.items()
        for part, values in parts.items()
    ]


def always_lines(evaluation: Evaluation) -> dict[tuple[str, str], str]:
    """A remark by task and part where all answers are one, or sparse vectors have collapsed."""
    lines = {
        (task, part): f"every example got {f'the answer `{answer}`' if answer else 'no answer'}"
        for task, parts in evaluation.always.items()
        for part, answer in parts.items()
    }
    for task, parts in evaluation.scores.items():
        for part, values in parts.items():
            if min(values.get(f"{kind}_terms", 1.0) for kind in ("query", "passage")) < 1:
                lines[task, part] = COLLAPSED
    return lines


def loss_line(evaluation: Evaluation) -> str:
    """The losses that are shown, each beside that of guessing by token frequency."""
    losses, unigram = evaluation.losses, evaluation.unigram_losses
    return ", ".join(
        f"{loss_title(name)} {losses[name]:.3f}"
        + (f" (unigram {unigram[name]:.3f})" if name in unigram else "")
        for name in shown_figures(losses)
    )


def plateau_lines(evaluation: Evaluation, stage: Stage) -> list[str]:
    """A remark where masked tokens are predicted as by their frequencies, or there are none."""
    losses, unigram, known = evaluation.losses, evaluation.unigram_losses, evaluation.positions
    below = [unigram[name] - losses[name] for name in shown_figures(losses) if name in known]
    if not below:
        bare = "no held-out position is masked: losses are of all predicted ones"
        return [bare] * bool(MASKED_LM & losses.keys())
    least = round(max(below), 2)
    than = f"only {least:.2f} nat below" if least > 0 else "no better than"
    line = f"masked positions are {than} guessing by token frequency: little else is learned yet"
    has = stage.encoder.settings()
    lacked = (n for n, (kind, _) in SOONER.items() if n in has and has[n].kind != kind)
    ways = ", ".join(["more steps", *(SOONER[name][1] for name in lacked), "more masks and muon"])
    return [f"{line}; {ways} leave this (docs/measured.md)"] * (max(below) < PLATEAU)


@dataclass(frozen=True)
class NextTokenCost:
    """An evaluation of next tokens; ``seconds`` are of reading alone, without loading."""

    tokens: int
    seconds: float
    tokens_per_second: float
    perplexity: float
    bits_per_token: float
    bits_per_character: float | None

    def describe(self) -> str:
        """A line for the summary."""
        bits = self.bits_per_character
        return (
            f"{as_told(self.bits_per_token * math.log(2))}"
            f"{'' if bits is None else f', {bits:.3f} bits a character'}; "
            f"{several(self.tokens, 'token')} in {self.seconds:.1f} s, "
            f"{self.tokens_per_second:,.0f} a second"
        )


def next_token_cost(evaluation: Evaluation, stage: Stage, seconds: float) -> NextTokenCost | None:
    """The reading of a stage of next tokens alone; None for other objectives."""
    if [term.objective.order for term in stage.objective] != ["forward"]:
        return None
    bits, tokens = evaluation.loss / math.log(2), evaluation.predictions
    characters = evaluation.characters
    return NextTokenCost(
        tokens=tokens, seconds=seconds, tokens_per_second=tokens / max(seconds, 1e-9),
        perplexity=math.exp(min(evaluation.loss, LARGEST_KNOWN)), bits_per_token=bits,
        bits_per_character=bits * tokens / characters if characters else None,
    )  # fmt: skip


def as_told(nats: float) -> str:
    """A next-token loss as perplexity and bits a token."""
    perplexity = math.exp(nats) if nats < LARGEST_SHOWN else math.inf
    return f"perplexity {perplexity:,.2f}, {nats / math.log(2):.3f} bits a token"


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
                    lines.append(self.reading.describe() if self.reading else as_told(loss))
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
        by_language = Table(("language", *map(loss_title, names)), rows, "loss by language")
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
            loss_title(name), f"{loss:.3f}", "" if unigram is None else f"{unigram:.3f}",
            "" if unigram is None else f"{unigram - loss:.3f}",
            f"{evaluation.accuracy[name]:.1%}" if name in evaluation.accuracy else "",
        )  # fmt: skip
        rated = ("" if base is None else f"{base:.1%}",) if evaluation.base_rate else ()
        rows.append((*cells, *rated))
    head = ("objective", "loss", "unigram", "below it", "accuracy")
    rated = ("base rate",) if evaluation.base_rate else ()
    return Table((*head, *rated), rows, f"held out, {several(evaluation.examples, 'example')}")


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
                    *(f"{figure:.4f}" for figure in (score.precision, score.recall, score.f1)),
                    "{:.2f} to {:.2f}".format(*f1_interval(score)),
                    f"{score.support:,}",
                )
                for name, score in scores.classes.items()
            ]
            macro = ("mean (macro F1)", "", "", f"{scores.macro_f1:.4f}", "", "")
            head = ("class", "precision", "recall", "F1", "95%", "support")
            yield Table(head, (*rows, macro), f"{task} {part} by class")
