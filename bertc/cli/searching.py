"""The command that searches: trials of a spec with ranges."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bertc.cli.options import JsonOption, SetOption, app, say


@app.command()
def sweep(
    spec: Annotated[
        str,
        typer.Argument(help="a spec with ranges: optimizer=adamw({1e-5..1e-3:log}) layers={2..12}"),
    ],
    trials: Annotated[
        int, typer.Option(min=1, help="trials in all, those of before included")
    ] = 20,
    for_: Annotated[
        str,
        typer.Option(
            "--for", help="the score: dev.accuracy, mlm, loss, as runs --results names it"
        ),
    ] = "loss",
    set: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="folder of the search [default: runs/NAME]")] = (
        None
    ),
    budget: Annotated[
        str | None, typer.Option(help="most time or FLOPs of all trials together: 2h, 1e16")
    ] = None,
    prune: Annotated[
        str | None, typer.Option(help="halving: stop bad trials at evaluations 1, 2, 4, 8, ...")
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
