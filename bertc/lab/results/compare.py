"""``bertc runs --results``: results of runs as a table, and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from bertc.lab.results.groups import Group, Score, Summary, group_runs
from bertc.lab.results.intervals import SPREAD, mean_text
from bertc.lab.results.runs import Run, find_folders, read_run
from bertc.lab_api import Seen, Table, loss_title

READABLE = 100
"""Characters of a line up to which each group is a row; in a wider table it is a column."""
SETTINGS_WIDE = 80
"""Characters up to which settings are columns; beyond, lines of one column."""


@dataclass(frozen=True)
class Results:
    """Runs in groups that differ in nothing but the seed."""

    groups: tuple[Group, ...]
    source: str = "of the last evaluations"
    """The evaluations that the scores are of."""
    notes: tuple[str, ...] = ()
    """Further lines, such as the files that were scored."""

    def _repr_html_(self) -> str:
        return "\n".join(table.html() for table in self.tables())

    def tables(self) -> list[Table]:
        """A table for the groups with the same scores, a row a group; notes below the last."""
        kinds: dict[frozenset[Score], list[Group]] = {}
        for group in self.groups:
            kinds.setdefault(frozenset(group.last), []).append(group)
        *first, last = map(_table, kinds.values())
        shown = f"{SPREAD}, best; {self.source}"
        if any(run.earlier for group in self.groups for run in group.runs):
            shown += " of each stage"
        better = any(group.best for group in self.groups)
        shown += "; below them those of the best evaluations" if better else ""
        return [*first, replace(last, notes=(shown, *self.notes))]

    def as_table(self) -> str:
        """A row a group: mean, half its 95% interval and best of each score over the seeds."""
        return "\n\n".join(map(str, self.tables()))

    def as_json(self) -> str:
        """The results as one JSON object."""
        notes = {"notes": self.notes} if self.notes else {}
        groups = [_group(g) for g in self.groups]
        return json.dumps({"schema": 1, "groups": groups, **notes}, indent=1)


def _table(groups: Sequence[Group]) -> Table:
    """The results of groups that have the same scores."""
    differ = [n for n in groups[0].settings if len({g.settings[n] for g in groups}) > 1]
    columns = {name: [group.settings[name] for group in groups] for name in differ}
    if sum(max(map(len, (n, *texts))) for n, texts in columns.items()) > SETTINGS_WIDE:
        texts = [[f"{n}={g.settings[n]}" for n in differ if g.settings[n]] for g in groups]
        lines = ([line for text in row for line in wrap(text, SETTINGS_WIDE)] for row in texts)
        columns = {"settings": ["\n".join(row) for row in lines]}
    columns["seeds"] = [_seeds(group) for group in groups]
    if any(run.parameters_left for group in groups for run in group.runs):
        numbers = [{n for run in g.runs if (n := run.parameters_left)} for g in groups]
        columns["parameters left"] = [", ".join(f"{n:,}" for n in sorted(row)) for row in numbers]
    for score in groups[0].last:
        columns[heading(score)] = [_cell(group, score) for group in groups]
    if any(group.glue is not None for group in groups):
        columns["GLUE"] = ["" if g.glue is None else f"{g.glue:.4f}" for g in groups]
    places = [group.place for group in groups]
    table = Table(("run", *columns), list(zip(places, *columns.values(), strict=True)))
    if len(columns) > len(groups) and max(map(len, str(table).splitlines())) > READABLE:
        return Table(("run", *places), [(name, *cells) for name, cells in columns.items()])
    return table


def results(folders: Sequence[Path]) -> Results:
    """Group the runs in these folders and below them."""
    return Results(tuple(group_runs([*map(read_run, find_folders(folders))])))


def heading(score: Score) -> str:
    """The heading of a score's column."""
    if len(score) == 1:
        return f"{loss_title(score[0])} held-out loss"
    task, part, metric = score
    return f"{task} {part} {metric}"


def _seeds(group: Group) -> str:
    runs, seeds = len(group.runs), len(group.seeds)
    line = f"{seeds}" + f" in {runs} runs" * (runs > seeds)
    standing = group.runs[0].standing  # an unfinished run has a row to itself
    return f"{line}\nunfinished: {standing}" if standing else line


def _cell(group: Group, score: Score) -> str:
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
        "settings": dict(group.settings), "seeds": group.seeds, "glue_average": group.glue,
        "last": [_summary(score, summary, ()) for score, summary in group.last.items()],
        "best": [_summary(score, *best) for score, best in group.best.items()],
        "runs": [_run(run) for run in group.runs],
    }  # fmt: skip


def _summary(score: Score, summary: Summary, steps: Sequence[int]) -> dict[str, Any]:
    return {**_name_parts(score), **asdict(summary), **({"steps": list(steps)} if steps else {})}


def _name_parts(score: Score) -> dict[str, str]:
    if len(score) == 3:
        return dict(zip(("task", "part", "metric"), score, strict=True))
    return {"loss": score[0]}


def _run(run: Run) -> dict[str, Any]:
    return {
        "folder": str(run.folder), "name": run.resolved.name, "seed": run.resolved.run.seed,
        "step": run.step, "steps": run.steps, "finished": run.finished,
        **({"parameters_left": run.parameters_left} if run.parameters_left else {}),
        "last": run.last and _evaluation(run.last), "best": run.best and _evaluation(run.best),
        "earlier": [*map(_evaluation, run.earlier)],
    }  # fmt: skip


def _evaluation(seen: Seen) -> dict[str, Any]:
    values = [{**_name_parts(score), "value": value} for score, value in seen.values.items()]
    return {"step": seen.step, "values": values}
