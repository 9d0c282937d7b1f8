"""Commands of the laboratory: published tables, and searches over the ranges of a spec."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from bertc.base.diagnostics import UsageError
from bertc.cli.options import JsonOption, SetOption, app, file_to_write, in_color, say

ScaleOption = Annotated[
    str, Option(help="full: the paper's sizes; base, small; tiny: minutes a row on a laptop")
]
DataOption = Annotated[
    list[str] | None,
    Option(help="the folder with the files that the table needs, or NAME=PATH of one"),
]


@app.command()
def reproduce(
    table: Annotated[
        str, Argument(help="a shipped table, or a file of your own; without it they are listed")
    ] = "",
    scale: ScaleOption = "",
    data: DataOption = None,
    seeds: Annotated[int, Option(min=1, max=1000, help="number of seeds a row")] = 1,
    out: Annotated[
        Path | None, Option(help="folder of the runs [default: runs/tables/TABLE]")
    ] = None,
    estimate: Annotated[
        bool, Option("--estimate", help="show what each row costs; trains nothing")
    ] = False,
    show: Annotated[
        bool, Option("--show", help="show what came out so far; trains nothing")
    ] = False,
    device: Annotated[str, Option(help="of estimates")] = "h200",
    plot: Annotated[Path | None, file_to_write("a .png or .svg file: the scores")] = None,
    json: JsonOption = False,
) -> None:
    """Train the rows of a published table, and show them next to the paper's figures.

    The same command goes on where it was killed, and shares the rows with other processes that run
    it on the same folder.
    """
    from bertc.base.failures import BAD_SPEC, exit_code
    from bertc.lab.reproduce import reproduce as tables
    from bertc.lab.reproduce.listing import listing
    from bertc.lab.reproduce.table import PAPERS

    _refuse_unlike(table, show, estimate, plot)
    if not table:
        say(listing(json))
        return
    if estimate:
        costs = tables.estimate_table(table, scale or PAPERS, data or (), out, device)
        say(costs.as_json() if json else costs.as_table())
        raise typer.Exit(0 if costs.is_sound else BAD_SPEC)
    codes = list[int]()
    if show:
        shown = tables.show_table(table, scale, out)
    else:
        shown, failures = tables.train_table(table, scale, data or (), seeds, out, _say)
        codes = [exit_code(error, in_color(sys.stderr)) for error in failures]
    if plot:
        shown.plot(plot)
    say(shown.as_json() if json else shown.as_text())
    if codes:
        raise typer.Exit(codes[0])


def _refuse_unlike(table: str, show: bool, estimate: bool, plot: Path | None) -> None:
    if plot and plot.suffix.lower() not in (".png", ".svg"):
        raise UsageError(f"{plot.name}: pictures are drawn as .png or .svg", help="--plot a.svg")
    if show and estimate:
        raise UsageError("--show has results, --estimate what they cost", help="one of them")
    if show and not table:
        raise UsageError("--show needs a table", help="bertc reproduce TABLE --show")


def _say(text: str) -> None:
    say(text, err=True)


@app.command()
def sweep(
    spec: Annotated[
        str, Argument(help="a spec with ranges: optimizer=adamw({1e-5..1e-3:log}) layers={2..12}")
    ],
    trials: Annotated[int, Option(min=1, help="trials in all, those of before included")] = 20,
    for_: Annotated[
        str, Option("--for", help="the score: dev.accuracy, mlm, loss, as runs --results names it")
    ] = "loss",
    set: SetOption = None,
    out: Annotated[Path | None, Option(help="folder of the search [default: runs/NAME]")] = (None),
    budget: Annotated[
        str | None, Option(help="most time or FLOPs of all trials together: 2h, 1e16")
    ] = None,
    prune: Annotated[
        str | None, Option(help="halving: stop bad trials at evaluations 1, 2, 4, 8, ...")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Search the ranges and lists of a spec for the best score, each trial in a run folder.

    The same command goes on with a search that was stopped or killed, and joins one that another
    process works at. The best trial is printed as a spec; all else goes to stderr.
    """
    from bertc.lab.search.sweeping import sweep as run

    swept = run(spec, set or (), for_, trials, out, budget, prune, partial(say, err=True))
    if json:
        say(swept.outcome.as_json())
        return
    say(swept.outcome.as_table(), err=True)
    say(swept.spec, nl=False)
