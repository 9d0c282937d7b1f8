"""The figures of a run along its way, by flat names. Loads neither torch nor the program."""

from dataclasses import dataclass
from typing import Any, Literal

from bertc.run.records import metrics

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
    kind, fields = line["kind"], dict[str, Any](line)
    alone = ("loss", "grad_norm", "lr", "loss_masked", "unigram_loss")
    values: Values = {f"{kind}/{name}": fields[name] for name in alone if name in fields}
    for title, by_name in (
        ("loss", line["losses"]),
        ("accuracy", line.get("accuracy", {})),
        ("unigram_loss", line.get("unigram_losses", {})),
    ):
        values |= {f"{kind}/{title}/{name}": value for name, value in by_name.items()}
    for language, figures in line.get("languages", {}).items():
        values |= {f"{kind}/{language}/{name}": value for name, value in figures.items()}
    for task, parts in line.get("scores", {}).items():
        for part, scores in parts.items():
            values |= {f"{kind}/{task}/{part}/{name}": value for name, value in scores.items()}
    return values


class LineReader:
    """A reader of the lines of a run, one after another."""

    def __init__(self) -> None:
        self._before = (0, 0.0)

    def read(self, line: metrics.Line) -> LineFigures:
        """The figures of the next line, with the speed since the one before."""
        before = self._before
        tokens, seconds = line.get("tokens", before[0]), line.get("seconds", before[1])
        values = values_of(line)
        if line["kind"] == "train" and tokens > before[0] and seconds > before[1]:
            values["train/tokens_per_second"] = (tokens - before[0]) / (seconds - before[1])
        self._before = tokens, seconds
        return LineFigures(line["kind"], line["stage"], line["step"], tokens, seconds, values)
