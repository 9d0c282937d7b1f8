"""The figures of a run along its way, by flat names. Loads neither torch nor the program."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertc.base.storage.paths import is_taken
from bertc.hub.folders import RESOLVED
from bertc.run.records import metrics
from bertc.run.records.lines import ATTEMPT, USAGE, Attempt, Usage, by_stage, read_lines

Values = dict[str, float]


# Not frozen: a page has hundreds of thousands, and a frozen one takes five times as long to make.
@dataclass
class LineFigures:
    """A line of metrics: where the run stood, and its figures by name (see ``values_of``).

    ``seconds`` are of training and evaluations.
    """

    kind: Literal["train", "eval"]
    stage: str
    step: int
    tokens: int
    seconds: float
    values: Values


def values_of(line: metrics.Line) -> Values:
    """The figures of a line by flat names, as trackers and pictures have them.

    ``train/loss``, ``train/loss/mlm``, ``train/grad_norm``, ``train/lr``; ``eval/loss``,
    ``eval/accuracy/mlm_masked``, ``eval/sst2/dev/accuracy``, ``eval/de/mlm``.
    """
    kind = line["kind"]
    values: Values = {f"{kind}/loss": line["loss"]}
    if "grad_norm" in line:
        values[f"{kind}/grad_norm"] = line["grad_norm"]
    if "lr" in line:
        values[f"{kind}/lr"] = line["lr"]
    for name, value in line["losses"].items():
        values[f"{kind}/loss/{name}"] = value
    for name, value in line.get("accuracy", {}).items():
        values[f"{kind}/accuracy/{name}"] = value
    if "loss_masked" in line:
        values[f"{kind}/loss_masked"] = line["loss_masked"]
    if "unigram_loss" in line:
        values[f"{kind}/unigram_loss"] = line["unigram_loss"]
    for name, value in line.get("unigram_losses", {}).items():
        values[f"{kind}/unigram_loss/{name}"] = value
    for language, figures in line.get("languages", {}).items():
        values |= {f"{kind}/{language}/{name}": value for name, value in figures.items()}
    for task, parts in line.get("scores", {}).items():
        for part, scores in parts.items():
            values |= {f"{kind}/{task}/{part}/{name}": value for name, value in scores.items()}
    return values


class LineReader:
    """A reader of the lines of a run, given in their order, in one call or in many."""

    def __init__(self) -> None:
        self._before = (0, 0.0)

    def figures(self, lines: Iterable[metrics.Line]) -> Iterator[LineFigures]:
        """The figures of the next lines, with the speed since the one before."""
        for line in lines:
            before = self._before
            tokens, seconds = line.get("tokens", before[0]), line.get("seconds", before[1])
            values = values_of(line)
            if line["kind"] == "train" and tokens > before[0] and seconds > before[1]:
                speed = (tokens - before[0]) / (seconds - before[1])
                values["train/tokens_per_second"] = speed
            self._before = tokens, seconds
            yield LineFigures(line["kind"], line["stage"], line["step"], tokens, seconds, values)


class FollowedFiles:
    """The files of a run folder with figures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.attempts = path / "attempts.jsonl"
        self.spent = path / "spent.jsonl"
        self.resolved = path / RESOLVED

    @property
    def last_sign(self) -> float:
        """The Unix time at which the run last wrote a figure, was taken up, or was made."""
        files = (self.metrics, self.attempts, self.resolved)
        return max((path.stat().st_mtime for path in files if is_taken(path)), default=0.0)

    def read_attempts(self) -> list[Attempt]:
        """Each time that processes took up the run, oldest first; times are Unix seconds.

        Raises:
            MissingInputError, DataError: if the file cannot be read, or is damaged.
        """
        return read_lines(self.attempts, ATTEMPT)

    def read_spent(self) -> dict[str, Usage]:
        """Seconds by use and peak bytes of the run's first process, by stage.

        Raises:
            MissingInputError, DataError: if the file cannot be read, or is damaged.
        """
        return by_stage(read_lines(self.spent, USAGE))

    def figures(self, lines: Iterable[metrics.Line]) -> Iterator[LineFigures]:
        """The figures by flat names of all lines of metrics, with the speed between two."""
        return LineReader().figures(lines)

    def follow(self) -> list[LineFigures]:
        """The figures until now, of a run that may be training.

        Raises:
            MissingInputError, DataError: if the file cannot be read, or is damaged.
        """
        return [*self.figures(metrics.read(self.metrics))]
