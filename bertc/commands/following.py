"""Commands on runs as they go: listing them, and watching one."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bertc.commands.options import JsonOption, app, say, without_collecting


@app.command("runs")
@without_collecting()
def runs_(
    folder: Annotated[Path, typer.Option("--in", help="the folder to look in")] = Path("runs"),
    where: Annotated[
        list[str] | None,
        typer.Option(help="only runs with state=stopped, name='bert*', hidden=256 (repeatable)"),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="when, name, state, score, parameters, seconds or flops")
    ] = "when",
    json: JsonOption = False,
) -> None:
    """List run folders with their state, last and best score, cost, and when they last ran."""
    from bertc.runs.listing import list_runs

    listing = list_runs(folder, where or (), sort)
    say(listing.as_json() if json else listing.as_table())


@app.command("watch")
def watch_(
    run: Annotated[Path, typer.Argument(help="a run folder; one that is not there is waited for")],
    once: Annotated[bool, typer.Option("--once", help="show how it stands, and end")] = False,
) -> None:
    """Follow a run until it ends: curves, rate, time left, last evaluation; Ctrl-C ends it."""
    from rich.console import Console

    from bertc.watch.terminal import show_once, wait_for, watch

    console = Console(highlight=False)
    if once:
        show_once(run, console)
        return
    os.nice(10)  # what is watched needs the cores more
    wait_for(run, console)
    watch(run, console)
