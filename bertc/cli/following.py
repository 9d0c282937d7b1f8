"""Commands on runs and their results: listing, watching, reporting and inspecting them."""

import os
from pathlib import Path

import typer

from bertc.base.storage import durable
from bertc.cli.options import JsonOption, app, argument, file_to_write, option, refuse_others, say

LISTED, RESULTS = ("where", "sort", "json"), ("results", "json")


@app.command("runs")
def runs_(
    context: typer.Context,
    folders: list[Path] | None = argument(None, "folders to look in [default: runs]"),
    results: bool = option(False, "scores side by side, a row for each spec", "--results"),
    where: list[str] | None = option(None, "runs with name='bert*', hidden=256 (repeatable)"),
    sort: str = option("when", "when, name, state, score, parameters, seconds or flops"),
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
    run: Path = argument(..., "a run folder; one that is not there is waited for"),
    once: bool = option(False, "show how it stands, and end", "--once"),
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
    runs: list[Path] = argument(..., "run folders, or folders of them"),
    out: Path = file_to_write(Path("report.html"), "the HTML file to write", "-o", "--out"),
) -> None:
    """Write runs as one HTML page: curves, cost, scores; of several, next to each other."""
    from bertc.lab.report.report import report_page

    durable.replace(out, report_page(runs).encode(), elsewhere="name another file with -o")
    say(out)
