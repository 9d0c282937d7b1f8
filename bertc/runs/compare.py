"""``bertc runs --results``: results of runs as a table, as JSON, as a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.table import Table

from bertc.ir.learning.objective import titled
from bertc.runs.groups import Group, Summary, grouped
from bertc.runs.intervals import SPREAD, interval, mean_text
from bertc.runs.plot import save
from bertc.runs.results import Run, Score, Seen, find_runs

WIDEST = 10_000
"""Characters of the console for tables, more than any table takes."""
READABLE = 100
"""Characters of a line up to which a table is readable.

A wider one of groups with different scores becomes a block of lines a group.
"""
BLOCK_WIDE = 80
"""Characters at which the settings of a block are wrapped."""
WHAT = ("objective", "data")
SETTINGS_WIDE = 80
"""Characters up to which settings are columns; beyond, one below another."""


@dataclass(frozen=True)
class Results:
    """Runs in groups that differ in nothing but the seed."""

    groups: tuple[Group, ...]
    source: str = "of the last evaluations"
    """The evaluations that the scores are of."""
    notes: tuple[str, ...] = ()
    """Further lines, such as the files that were scored."""
    in_blocks: bool = False
    """True for a block of lines a group, of evaluations with a score a class."""

    @property
    def scores(self) -> list[Score]:
        """The scores of all groups, one per column."""
        return list(dict.fromkeys(score for group in self.groups for score in group.last))

    def as_table(self) -> str:
        """A row a group: mean, half its 95% interval and best of each score over the seeds.

        If rows are too wide to be read, a block of lines a group.
        """
        lines, kinds = self._rows(), {frozenset(group.last) for group in self.groups}
        wide = max(map(len, lines)) > READABLE and (len(kinds) > 1 or self._many_settings)
        if wide or self.in_blocks:
            lines = [line for group in self.groups for line in self._block(group)]
        return "\n".join([*lines, *self._notes()])

    def _block(self, group: Group) -> list[str]:
        """The lines of a group: its folder, settings that differ from like groups, and scores.

        Where no two groups are alike, settings that differ from any; one that is like no other
        says at least what it learned of what.
        """
        alike = [each for each in self.groups if {*each.last} == {*group.last}]
        kinds = {frozenset(each.last) for each in self.groups}
        beside = alike if len(kinds) < len(self.groups) else self.groups
        always = WHAT if len(alike) == 1 else ()
        differ = [
            name
            for name in group.settings
            if name in always or len({each.settings[name] for each in beside}) > 1
        ]
        settings = [f"{name}={group.settings[name]}" for name in differ if group.settings[name]]
        runs = _seeds(group).replace("\n", ", ")
        lines = [f"{group.place}  (seeds: {runs})"]
        for text in settings:
            lines += wrap(text, BLOCK_WIDE, initial_indent="  ", subsequent_indent=" " * 6)
        if left := _parameters_left(group):
            lines.append(f"  parameters left: {left}")
        titles = {score: heading(score).replace("\n", " ") for score in group.last}
        width = max(map(len, titles.values()), default=0)
        for score, title in titles.items():
            first, *below = _cell(group, score).split("\n")
            lines.append(f"  {title.ljust(width)}  {first}")
            lines += [f"  {'best'.rjust(width)}  {line}" for line in below]
        if group.glue is not None:
            lines.append(f"  {'GLUE'.ljust(width)}  {group.glue:.4f}")
        return [*lines, ""]

    def _rows(self) -> list[str]:
        table, averages = Table(), [group.glue for group in self.groups]
        settings = list(self.groups[0].settings)
        for name in ("run", *(["settings"] if self._many_settings else settings)):
            table.add_column(name)
        table.add_column("seeds", justify="right")
        pruned = any(run.parameters_left for group in self.groups for run in group.runs)
        if pruned:
            table.add_column("parameters\nleft", justify="right")
        for score in self.scores:
            table.add_column(heading(score), justify="right")
        if any(average is not None for average in averages):
            table.add_column("GLUE", justify="right")
        for group, average in zip(self.groups, averages, strict=True):
            setting_cells = (
                ["\n".join(_setting_texts(group))]
                if self._many_settings
                else group.settings.values()
            )
            cells = [_cell(group, score) for score in self.scores]
            last = [] if average is None else [f"{average:.4f}"]
            left = [_parameters_left(group)] if pruned else []
            table.add_row(group.place, *setting_cells, _seeds(group), *left, *cells, *last)
        console = Console(width=WIDEST, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(table)
        return [line.rstrip() for line in captured.get().splitlines()]

    @property
    def _many_settings(self) -> bool:
        """True if columns of settings would take too much of a line."""
        columns = {n: [g.settings[n] for g in self.groups] for n in self.groups[0].settings}
        return sum(max(map(len, (n, *texts))) for n, texts in columns.items()) > SETTINGS_WIDE

    def _notes(self) -> list[str]:
        shown = f"{SPREAD}, best; {self.source}"
        if any(run.earlier for group in self.groups for run in group.runs):
            shown += " of each stage"
        better = any(group.best for group in self.groups)
        shown += "; below them those of the best evaluations" if better else ""
        return [*wrap(shown, READABLE), *self.notes]

    def as_json(self) -> str:
        """The results as one JSON object."""
        notes = {"notes": self.notes} if self.notes else {}
        groups = [_group(g) for g in self.groups]
        return json.dumps({"schema": 1, "groups": groups, **notes}, indent=1)

    def _label(self, group: Group) -> str:
        """The label of a group in a plot."""
        settings = [] if self._many_settings else _setting_texts(group)
        return "\n".join([*(settings or [group.place]), *filter(None, [group.standing])])

    def plot(self, path: Path) -> None:
        """Draw the scores of each group with their 95% intervals, as a PNG.

        Raises:
            CannotWriteError: if the disk has no room.
        """
        # Here and not above: a table needs no pictures, and loading takes time.
        from matplotlib.figure import Figure

        scores = self.scores
        figure = Figure(figsize=(max(6.0, 1.5 * len(self.groups)), 5), layout="constrained")
        axes = figure.subplots()
        for number, score in enumerate(scores):
            aside = (number - (len(scores) - 1) / 2) * 0.6 / len(scores)
            summaries = {
                i + aside: g.last[score] for i, g in enumerate(self.groups) if score in g.last
            }
            axes.errorbar(
                list(summaries),
                [summary.mean for summary in summaries.values()],
                yerr=[interval(summary) for summary in summaries.values()],
                fmt="o",
                capsize=4,
                label=heading(score).replace("\n", " "),
            )
        axes.set_xticks(range(len(self.groups)), [self._label(group) for group in self.groups])
        axes.tick_params(axis="x", labelrotation=20 if len(self.groups) > 3 else 0)
        axes.grid(alpha=0.3)
        if scores:
            axes.legend()
        save(figure, path, elsewhere="name another file")


def results(folders: Sequence[Path]) -> Results:
    """Group the runs in these folders and below them.

    Raises:
        MissingInputError: if a folder does not exist, or there is no run in any.
        DataError: if the files of a run are damaged.
    """
    return Results(tuple(grouped(find_runs(folders))))


def heading(score: Score) -> str:
    """The heading of a score's column."""
    if len(score) == 1:
        return f"{titled(score[0])}\nheld-out loss"
    task, part, metric = score
    return f"{task} {part}\n{metric}"


def _setting_texts(group: Group) -> list[str]:
    return [f"{name}={text}" for name, text in group.settings.items() if text]


def _seeds(group: Group) -> str:
    runs = len(group.runs)
    lines = [f"{len(group.seeds)}" + (f" in {runs} runs" if group.has_twins else "")]
    return "\n".join([*lines, *([f"unfinished: {group.standing}"] if group.standing else [])])


def _parameters_left(group: Group) -> str:
    """Numbers of parameters after pruning, of each run unless they are equal."""
    numbers = {run.parameters_left for run in group.runs}
    return ", ".join(f"{number:,}" for number in sorted(filter(None, numbers)))


def _cell(group: Group, score: Score) -> str:
    if score not in group.last:
        return ""
    lines = [_text(group.last[score])]
    if score in group.best:
        summary, steps = group.best[score]
        lines.append(f"{_text(summary)} at {', '.join(f'{step:,}' for step in steps)}")
    return "\n".join(lines)


def _text(summary: Summary) -> str:
    best = f", {summary.best:.4f}" if summary.runs > 1 else ""
    return mean_text(summary) + best


def _group(group: Group) -> dict[str, Any]:
    return {
        "settings": dict(group.settings),
        "seeds": group.seeds,
        "glue_average": group.glue,
        "last": [_summary(score, summary, ()) for score, summary in group.last.items()],
        "best": [_summary(score, *best) for score, best in group.best.items()],
        "runs": [_run(run) for run in group.runs],
    }


def _summary(score: Score, summary: Summary, steps: Sequence[int]) -> dict[str, Any]:
    return {**_named(score), **asdict(summary), **({"steps": list(steps)} if steps else {})}


def _named(score: Score) -> dict[str, str]:
    if len(score) == 3:
        return dict(zip(("task", "part", "metric"), score, strict=True))
    return {"loss": score[0]}


def _run(run: Run) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "name": run.resolved.name,
        "seed": run.resolved.run.seed,
        "step": run.step,
        "steps": run.resolved.steps,
        "finished": run.finished,
        **({"parameters_left": run.parameters_left} if run.parameters_left else {}),
        "last": _evaluation(run.last),
        "best": _evaluation(run.best),
        "earlier": [_evaluation(seen) for seen in run.earlier],
    }


def _evaluation(seen: Seen | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    values = [{**_named(score), "value": value} for score, value in seen.values.items()]
    return {"step": seen.step, "values": values}
