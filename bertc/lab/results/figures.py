"""The figures of a run along its way, by flat names. Loads neither torch nor the program."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Values = dict[str, float]
Line = Mapping[str, object]
"""A line of a run's metrics, as ``RunFolder.read_metrics`` has it."""


# Not frozen: a page has hundreds of thousands, and a frozen one takes five times as long to make.
@dataclass
class LineFigures:
    """A line of metrics: where the run stood, its seconds in all, its figures (``values_of``)."""

    kind: Literal["train", "eval"]
    stage: str
    step: int
    tokens: int
    seconds: float
    values: Values


def values_of(line: Line) -> Values:
    """The figures of a line by flat names, as trackers and pictures have them.

    ``train/loss``, ``train/loss/mlm``, ``train/grad_norm``, ``train/lr``; ``eval/loss``,
    ``eval/accuracy/mlm_masked``, ``eval/sst2/dev/accuracy``, ``eval/de/mlm``.
    """
    fields = dict[str, Any](line)
    kind = fields["kind"]
    alone = ("loss", "grad_norm", "lr", "loss_masked", "unigram_loss")
    values: Values = {f"{kind}/{name}": fields[name] for name in alone if name in fields}
    for title, by_name in (
        ("loss", fields["losses"]),
        ("accuracy", fields.get("accuracy", {})),
        ("unigram_loss", fields.get("unigram_losses", {})),
    ):
        values |= {f"{kind}/{title}/{name}": value for name, value in by_name.items()}
    for language, figures in fields.get("languages", {}).items():
        values |= {f"{kind}/{language}/{name}": value for name, value in figures.items()}
    for task, parts in fields.get("scores", {}).items():
        for part, scores in parts.items():
            values |= {f"{kind}/{task}/{part}/{name}": value for name, value in scores.items()}
    return values


class LineReader:
    """A reader of the lines of a run, one after another."""

    def __init__(self) -> None:
        self._before = (0, 0.0)

    def read(self, line: Line) -> LineFigures:
        """The figures of the next line, with the speed since the one before."""
        before, fields = self._before, dict[str, Any](line)
        tokens, seconds = fields.get("tokens", before[0]), fields.get("seconds", before[1])
        values = values_of(line)
        if fields["kind"] == "train" and tokens > before[0] and seconds > before[1]:
            values["train/tokens_per_second"] = (tokens - before[0]) / (seconds - before[1])
        self._before = tokens, seconds
        return LineFigures(fields["kind"], fields["stage"], fields["step"], tokens, seconds, values)


def figures(lines: Iterable[Line]) -> Iterator[LineFigures]:
    """The figures of all lines of a run, with the speed between two."""
    return map(LineReader().read, lines)
