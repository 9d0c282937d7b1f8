"""The command that reproduces published tables: lists, estimates, trains and shows them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertc.base.diagnostics import UsageError
from bertc.cli.options import JsonOption, app, file_to_write, in_color, say

ScaleOption = Annotated[
    str, typer.Option(help="full: the paper's sizes; base, small; tiny: minutes a row on a laptop")
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(help="the folder with the files that the table needs, or NAME=PATH of one"),
]


@app.command()
def reproduce(
    table: Annotated[
        str,
        typer.Argument(help="a shipped table, or a file of your own; without it they are listed"),
    ] = "",
    scale: ScaleOption = "",
    data: DataOption = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="number of seeds a row")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder of the runs [default: runs/tables/TABLE]")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="show what each row costs; trains nothing")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="show what came out so far; trains nothing")
    ] = False,
    device: Annotated[str, typer.Option(help="of estimates")] = "h200",
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
