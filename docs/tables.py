"""Write the pages of published tables, docs/tables/, from the results that are kept there.

    bertc reproduce TABLE --scale tiny --show --json > docs/tables/results/TABLE-tiny.json
    python docs/tables.py

A page a table: what was measured and what is published, which claims held, a picture. A remark
on a claim that did not is ``results/TABLE-SCALE.md``, by hand.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from matplotlib import rc_context
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from bertc.base.diagnostics import BertcError, SpecError
from bertc.cost.flops import executed_flops
from bertc.cost.units import flops_text
from bertc.lab.reproduce.files import data_files
from bertc.lab.reproduce.job import Job
from bertc.lab.reproduce.programs import Jobs
from bertc.lab.reproduce.reading import read_table, shipped_tables
from bertc.lab.reproduce.results import TableResults
from bertc.lab.reproduce.showing import Shown
from bertc.lab.reproduce.table import ScaleName, Table
from bertc.lab.results.groups import interval

FOLDER = Path(__file__).parent / "tables"
RESULTS = FOLDER / "results"
COSTS = FOLDER / "costs.json"
"""FLOPs by table and scale, which take long to count."""
_FIGURE = re.compile(r"[+-]?(\d|inf|nan)")
_RESULTS = TypeAdapter(TableResults)
SHIFT = 0.12
"""Our scores are above the line of a row and published figures below, so that both are seen."""
OURS, PUBLISHED = "#1f77b4", "#d62728"
INDEX = """\
# Published tables

Each is a file of rows, measures and claims that `bertc reproduce` trains at any size:
[how that is done](../how-to/tables.md). FLOPs are those of training every row once, and the runs
before them, in full rows.

{table}

## Trained here

Claims of the papers hold, or are reversed, where the difference is beyond the spread of the seeds.

{trained}
"""
PAGE = """\
# {table.title}

{table.paper}, {table.place}. {table.asks}

Published figures: {table.source}.{remark}

```sh
bertc reproduce {table.name} --scale {scale}{data}
```
"""


def pages() -> Iterator[tuple[Path, str]]:
    """Every page with its text: the index, then those of tables with or without results."""
    yield FOLDER / "index.md", INDEX.format(table=index(), trained=trained())
    for name in shipped_tables():
        yield FOLDER / f"{name}.md", page(read_table(name))


def index() -> str:
    """A row a table, with a link to the page of each."""
    known, lines = json.loads(COSTS.read_text()), list[list[str]]()
    for table in map(read_table, shipped_tables()):
        link = f"[{table.name}]({table.name}.md)"
        asked = f"{table.asks} {table.paper}, {table.place}"
        flops = map(flops_text, known[table.name].values())
        lines.append([link, asked, str(len(table.rows)), *flops])
    return markdown(["table", "question", "rows", *get_args(ScaleName)], lines)


def trained() -> str:
    """A line for each result that is kept: seeds, and how many claims came out."""
    found: list[tuple[str, ...]] = [
        ("table", "scale", "seeds", "claims", "hold", "reversed"),
        ("---",) * 6,
    ]
    for name in shipped_tables():
        for shown, _ in results(read_table(name)):
            verdicts = [verdict for *_, verdict in shown.claims()]
            counts = (len(verdicts), verdicts.count("holds"), verdicts.count("reversed"))
            scores = (of for row in shown.results.rows for of in row.scores.values())
            seeds = max(map(len, scores), default=0)
            found.append(
                (f"[{name}]({name}.md)", shown.results.scale, str(seeds), *map(str, counts))
            )
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in found)


def page(table: Table) -> str:
    """The page of a table."""
    kept = results(table)
    scale = kept[0][0].results.scale if kept else "tiny"
    remark = f"\n{table.remark}" if table.remark else ""
    data = " --data data/" if table.needs else ""
    parts = [PAGE.format(table=table, remark=remark, scale=scale, data=data).rstrip()]
    for shown, path in kept:
        parts += [f"## At scale {shown.results.scale}", shown.as_text(markdown)]
        parts += [f"![scores of the rows]({path.stem}.svg)"]
        by_hand = path.with_suffix(".md")
        parts += [by_hand.read_text().strip()] * by_hand.exists()
    if not kept:
        empty = TableResults(table.name, scale, (), 0, 0)
        parts += ["Not yet trained here.", Shown(table, empty).as_text(markdown)]
    return "\n\n".join(parts) + "\n"


def results(table: Table) -> list[tuple[Shown, Path]]:
    """The kept results of a table, by scale, and their files."""
    paths = [RESULTS / f"{table.name}-{scale}.json" for scale in table.scales]
    return [
        (Shown(table, _RESULTS.validate_json(path.read_bytes())), path)
        for path in paths
        if path.exists()
    ]


def digest(path: Path) -> str:
    """What a picture is of: its results' sha256."""
    return f"results {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with columns of figures aligned to the right."""
    columns = zip(*rows, strict=True)
    figures = [all(_FIGURE.match(cell) for cell in column if cell) for column in columns]
    lines = [head, ["---:" if right else "---" for right in figures], *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def flops_by_scale(table: Table) -> dict[str, float]:
    """FLOPs of training each row once, by scale, to four digits."""
    jobs = (Jobs(table, scale, data_files(table), Path(), sketched=True) for scale in table.scales)
    return {each.name: float(f"{sum(map(flops, each.firsts().values())):.3e}") for each in jobs}


def flops(job: Job) -> float:
    """FLOPs of a run without those of updates; 0 if it begins with one that is not there."""
    try:
        program = job.program()
    except (BertcError, SpecError):
        return 0.0
    steps = ((stage.steps * stage.batch, stage) for stage in program.stages)
    return sum(rows * executed_flops(stage, stage.batch).train for rows, stage in steps)


def draw(shown: Shown, path: Path, described: str) -> None:
    """A picture of the measures side by side: ours with 95% intervals, and published figures.

    These have an axis above: sizes differ by orders of magnitude, so that only the order of rows
    can be compared.
    """
    table, results, rows = shown.table, shown.results, [row.name for row in shown.table.rows]
    names = {name for row in results.rows for name in row.scores}
    measures = [measure for measure in table.measures if measure.name in names]
    size = (2.2 + 3.6 * len(measures), 1.2 + 0.32 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axes, measure in zip(panels, measures, strict=True):
        summaries = [(y, results.row(row).summary(measure.name)) for y, row in enumerate(rows)]
        ours = [(y - SHIFT, summary) for y, summary in summaries if summary]
        axes.errorbar(
            [summary.mean for _, summary in ours], [y for y, _ in ours],
            xerr=[interval(summary) for _, summary in ours], fmt="o", color=OURS, capsize=3,
        )  # fmt: skip
        axes.set_xlabel(f"{measure.name}, at scale {results.scale}", color=OURS)
        published = [(row.published.get(measure.name), y) for y, row in enumerate(table.rows)]
        if printed := [(figure, y + SHIFT) for figure, y in published if figure is not None]:
            above = axes.twiny()
            above.plot(*zip(*printed, strict=True), "D", color=PUBLISHED, markersize=4)
            above.set_xlabel("published", color=PUBLISHED)
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(alpha=0.3)
        axes.margins(y=0.2)
    panels[0].invert_yaxis()
    with rc_context({"svg.hashsalt": "bertc", "svg.fonttype": "none"}):  # always the same file
        figure.savefig(path, format="svg", metadata={"Description": described, "Date": None})


def main() -> None:
    """Count what tables cost, and write all pages and pictures."""
    FOLDER.mkdir(exist_ok=True)
    costs = {name: flops_by_scale(read_table(name)) for name in shipped_tables()}
    COSTS.write_text(json.dumps(costs, indent=1) + "\n")
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
    for name in shipped_tables():
        for shown, path in results(read_table(name)):
            draw(shown, FOLDER / f"{path.stem}.svg", digest(path))


if __name__ == "__main__":
    main()
