"""Relative effective context length: how much context each language model of a group makes use of.

Dai et al. 2019, 4.3 and appendix C. Axes: t positions of the text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bertc import ContextLosses, UsageError, context_losses

HARD = (0.1, 0.5, 1.0)
"""Shares of the positions that the best short context predicts worst (table 8)."""
THRESHOLD = 0.01
"""The least gain, as a fraction of the perplexity (appendix C)."""
TRIED = 10
WIDE = 200
UNBOUNDED = 1 << 40


class ContextLength(NamedTuple):
    """A context length in tokens; ``least``: the longest that was tried still gained."""

    tokens: int
    least: bool


@dataclass(frozen=True)
class ContextReport:
    """Relative effective context lengths of runs by share of hard positions, in tokens.

    ``perplexity`` is by run and context, of all positions that were read.
    """

    positions: int
    lengths: dict[str, dict[float, ContextLength]]
    perplexity: dict[str, dict[int, float]]

    def as_json(self) -> str:
        """One JSON object."""
        runs = [
            {
                "run": run,
                "lengths": [{"hard": hard, **of._asdict()} for hard, of in by_hard.items()],
                "perplexity": self.perplexity[run],
            }
            for run, by_hard in self.lengths.items()
        ]
        return json.dumps({"schema": 1, "positions": self.positions, "runs": runs}, indent=1)

    def as_table(self) -> str:
        """Lengths of each run, and its perplexity by context."""
        lengths = Table("run", title="relative effective context length", title_justify="left")
        for hard in HARD:
            lengths.add_column(f"r = {hard:g}", justify="right")
        perplexity = Table("run", title="perplexity by tokens before", title_justify="left")
        for context in next(iter(self.perplexity.values())):
            perplexity.add_column(f"{context:,}", justify="right")
        for run, by_hard in self.lengths.items():
            lengths.add_row(run, *(f"{'≥ ' * of.least}{of.tokens:,}" for of in by_hard.values()))
            perplexity.add_row(run, *(f"{value:,.2f}" for value in self.perplexity[run].values()))
        console = Console(width=WIDE, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(lengths, perplexity)
        least = f"a longer context gains less than {THRESHOLD:g} of the perplexity"
        return f"{captured.get().rstrip()}\n{self.positions:,} positions; {least}"


def context_lengths(
    runs: Sequence[Path],
    longest: int = 1000,
    positions: int = 1000,
    data: str = "",
    *,
    cache: Path | None = None,
    quiet: bool = False,
) -> ContextReport:
    """Compare how much context runs make use of, each with the best of all at shorter ones.

    Ten contexts are tried, up to ``longest`` tokens. The text is ``data``, or what all hold out.

    Raises:
        UsageError: if a run predicts no next tokens, or reads other tokens or text than the first.
        MissingInputError, DataError: as ``context_losses``.
    """
    contexts = sorted({max(1, longest * part // TRIED) for part in range(1, TRIED + 1)})
    read: dict[str, ContextLosses] = {}
    for run in dict.fromkeys(runs):
        losses = context_losses(run, contexts, positions, data, cache=cache, quiet=quiet)
        read[str(run)] = losses
        if losses.tokens != next(iter(read.values())).tokens:
            raise UsageError(
                f"{next(iter(read))} and {run} use different vocabularies or hold out different "
                "text, so their losses are not comparable",
                help="compare runs of one vocabulary; --data FILE reads one text by both",
            )
    group = [losses.by_context for losses in read.values()]
    lengths, perplexity = dict[str, dict[float, ContextLength]](), dict[str, dict[int, float]]()
    for name, losses in read.items():
        lengths[name] = {
            hard: relative_length(group, losses.by_context, hard, losses.room or UNBOUNDED)
            for hard in HARD
        }
        perplexity[name] = {c: float(np.exp(l_t.mean())) for c, l_t in losses.by_context.items()}
    return ContextReport(len(next(iter(read.values())).tokens), lengths, perplexity)


ByContext = Mapping[int, NDArray[np.float64]]


def relative_length(
    group: Sequence[ByContext],
    of_model: ByContext,
    hard: float,
    room: int,
    threshold: float = THRESHOLD,
) -> ContextLength:
    """The relative effective context length of one (``of_model``) of a group of models.

    A longer context counts where it beats the best of the group at the shorter one, on the share
    ``hard`` of the positions at which that best is worst; the length is the first whose next gains
    less than ``threshold`` of the perplexity. It is no more than a model's ``room``.
    """
    contexts = sorted(of_model)
    for shorter, longer in zip(contexts, contexts[1:], strict=False):
        best_t = np.min([losses[shorter] for losses in group], axis=0)
        hardest = np.argsort(-best_t, kind="stable")[: max(1, round(hard * len(best_t)))]
        after = np.minimum(best_t, of_model[longer])[hardest].mean()
        if 1 - np.exp(after - best_t[hardest].mean()) < threshold:
            return ContextLength(min(shorter, room), least=False)
    return ContextLength(min(contexts[-1], room), least=contexts[-1] < room)
