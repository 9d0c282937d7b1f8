"""Commands on runs and their results: listing, watching and reporting them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bertc.cli.options import JsonOption, app, file_to_write, refuse_others, say

LISTED, RESULTS = ("where", "sort", "json"), ("results", "json")


@app.command("runs")
def runs_(
    context: typer.Context,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="folders to look in [default: runs]")
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="scores side by side, a row for all seeds of a spec")
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(help="only runs with state=stopped, name='bert*', hidden=256 (repeatable)"),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="when, name, state, score, parameters, seconds or flops")
    ] = "when",
    json: JsonOption = False,
) -> None:
    """List run folders with their state, last and best score and cost, or compare their results.

    Of --results runs that differ only in the seed share a row, and each setting that differs is a
    column.
    """
    refuse_others(context, *(("results", RESULTS) if results else ("a list of runs", LISTED)))
    folders = folders or [Path("runs")]
    if results:
        from bertc.lab.results.compare import results as compare

        compared = compare(folders)
        say(compared.as_json() if json else compared.as_table())
        return
    from bertc.lab.results.listing import list_runs

    listing = list_runs(folders, where or (), sort)
    say(listing.as_json() if json else listing.as_table())


@app.command("watch")
def watch_(
    run: Annotated[Path, typer.Argument(help="a run folder; one that is not there is waited for")],
    once: Annotated[bool, typer.Option("--once", help="show how it stands, and end")] = False,
) -> None:
    """Follow a run until it ends: curves, rate, time left, last evaluation; Ctrl-C ends it."""
    from rich.console import Console

    from bertc.lab.watch.terminal import show_once, wait_for, watch

    console = Console(highlight=False)
    if once:
        show_once(run, console)
        return
    os.nice(10)  # what is watched needs the cores more
    wait_for(run, console)
    watch(run, console)


@app.command("report")
def report_(
    runs: Annotated[list[Path], typer.Argument(help="run folders, or folders of them")],
    out: Annotated[Path, file_to_write("the HTML file to write", "-o", "--out")] = Path(
        "report.html"
    ),
) -> None:
    """Write runs as one HTML page: curves, cost, scores; of several, next to each other."""
    from bertc.base.storage import durable
    from bertc.lab.report.report import report_page

    durable.replace(out, report_page(runs).encode(), elsewhere="name another file with -o")
    say(out)
