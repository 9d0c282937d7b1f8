"""``bertc context``: how much of the text before a token each model of a group makes use of."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bertc.data import RunningData, Vocabulary, differing_token
from bertc.diagnostics import UsageError
from bertc.evaluation.context import ByContext, ContextLength, losses_at, relative_length
from bertc.evaluation.manner import Manner
from bertc.host.display import Display, choose
from bertc.inference.evaluate import progress_of
from bertc.inference.open_run import open_run
from bertc.runs.folder import RunFolder
from bertc.runs.plot import plot_contexts

WIDE = 200
UNBOUNDED = 1 << 40


@dataclass(frozen=True)
class Contexts:
    """Context lengths to try, and what counts as a gain (Dai et al. 2019, appendix C).

    Every ``step`` tokens up to ``longest``; a gain is at least the share ``threshold`` of the
    perplexity, on the share ``hard`` of the positions that are hardest. ``examples`` positions are
    read, spread evenly over the text.
    """

    step: int = 100
    longest: int = 1000
    hard: tuple[float, ...] = (0.1, 0.5, 1.0)
    threshold: float = 0.01
    examples: int = 1000


@dataclass(frozen=True)
class ContextReport:
    """Relative effective context lengths of runs by share of hard positions, in tokens.

    ``perplexity`` is by run and context, of all positions that were read.
    """

    contexts: Contexts
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
        tried = {n: getattr(self.contexts, n) for n in ("step", "longest", "threshold")}
        tried["positions"] = self.positions
        return json.dumps({"schema": 1, **tried, "runs": runs}, indent=1)

    def as_table(self) -> str:
        """Lengths of each run, and its perplexity by context."""
        lengths = Table(title="relative effective context length", title_justify="left")
        lengths.add_column("run")
        for hard in self.contexts.hard:
            lengths.add_column(f"r = {hard:g}", justify="right")
        for run, by_hard in self.lengths.items():
            cells = (f"{'≥ ' * of.least}{of.tokens:,}" for of in by_hard.values())
            lengths.add_row(run, *cells)
        every = Table(title="perplexity by tokens before", title_justify="left")
        every.add_column("run")
        for context in next(iter(self.perplexity.values())):
            every.add_column(f"{context:,}", justify="right")
        for run, by_context in self.perplexity.items():
            every.add_row(run, *(f"{value:,.2f}" for value in by_context.values()))
        console = Console(width=WIDE, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(lengths)
            console.print(every)
        least = f"a longer context gains less than {self.contexts.threshold:g} of the perplexity"
        return f"{captured.get().rstrip()}\n{self.positions:,} positions; {least}"

    def plot(self, path: Path) -> None:
        """Draw perplexities by context as a PNG (figure 4 of the paper).

        Raises:
            CannotWriteError: if the disk has no room.
        """
        plot_contexts(self.perplexity, path)


@dataclass(frozen=True)
class _Read:
    """Losses of one run at the positions; ``ids`` and ``vocabulary`` say which text it was."""

    by_context: ByContext
    room: int
    ids: NDArray[np.int64]
    vocabulary: Vocabulary


def shares_named(text: str) -> tuple[float, ...]:
    """Shares written as ``0.1,0.5,1``.

    Raises:
        UsageError: if one is no number above 0 and up to 1.
    """
    try:
        shares = tuple(map(float, text.split(",")))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share <= 1 for share in shares):
        raise UsageError(f"{text} are no shares of the positions", help="--hard 0.1,0.5,1")
    return shares


def context_lengths(
    runs: Sequence[Path],
    contexts: Contexts,
    data: str = "",
    *,
    cache: Path | None = None,
    quiet: bool = False,
) -> ContextReport:
    """Compare how much context runs make use of, each beside the best of all at shorter ones.

    The text is ``data``, or what all of them hold out.

    Raises:
        UsageError: if a run predicts no next tokens, or reads other tokens or text than the first.
        MissingInputError, DataError: as ``evaluate_run``.
    """
    if contexts.longest < 2 * contexts.step:
        raise UsageError(
            f"contexts of {contexts.step} to {contexts.longest} tokens are less than two",
            help=f"--step {max(1, contexts.longest // 10)}",
        )
    names = list(dict.fromkeys(map(str, runs)))
    read: dict[str, _Read] = {}
    with closing(choose(quiet)) as display:
        for name in names:
            read[name] = _read(Path(name), contexts, data, cache, display)
            _refuse_other_text(names[0], read[names[0]], name, read[name])
    group = [each.by_context for each in read.values()]
    lengths, perplexity = dict[str, dict[float, ContextLength]](), dict[str, dict[int, float]]()
    for name, run in read.items():
        lengths[name] = {
            hard: relative_length(group, run.by_context, hard, contexts.threshold, run.room)
            for hard in contexts.hard
        }
        perplexity[name] = {c: float(np.exp(l_t.mean())) for c, l_t in run.by_context.items()}
    return ContextReport(contexts, len(next(iter(group[0].values()))), lengths, perplexity)


def _read(run: Path, contexts: Contexts, data: str, cache: Path | None, display: Display) -> _Read:
    folder = RunFolder(run)
    resolved, done = folder.read_resolved(), progress_of(folder)
    manner = Manner(sliding=contexts.step, data=data)
    with open_run(folder, resolved, done.step, manner, cache, display) as at:
        assert isinstance(at.data, RunningData), "a window slides over a stream"
        ids, room = np.concatenate(at.data.heldout_texts).astype(np.int64), at.stage.encoder.room
        if len(ids) <= contexts.longest:
            raise UsageError(
                f"the text is too short: no token has {contexts.longest} tokens before it",
                help=f"--longest {max(2, len(ids) // 2)}",
            )
        places_t = np.linspace(contexts.longest, len(ids) - 1, contexts.examples).astype(np.int64)
        places_t = np.unique(places_t)
        lengths = range(contexts.step, contexts.longest + 1, contexts.step)
        tried = sorted({min(context, room or context) for context in lengths})
        term = next(t.objective for t in at.stage.objective if t.objective.order == "forward")
        display.begin(f"reading {run}", len(places_t) * sum(tried), "tokens")
        tokens = at.microbatch * at.stage.seq
        losses = {
            context: losses_at(
                at.model, term, ids, places_t, context, max(1, tokens // context), display
            )
            for context in tried
        }
        display.end()
        by_context: dict[int, Any] = {c: losses[min(c, room or c)] for c in lengths}
        return _Read(by_context, room or UNBOUNDED, ids, at.data.vocabulary)


def _refuse_other_text(first: str, its: _Read, second: str, theirs: _Read) -> None:
    if differing_token(its.vocabulary, theirs.vocabulary):
        raise UsageError(
            f"{first} and {second} read other tokens, so that their losses do not compare",
            help="compare runs of one vocabulary",
        )
    if not np.array_equal(its.ids, theirs.ids):
        raise UsageError(
            f"{first} and {second} hold out other text", help="--data FILE reads one text by both"
        )
