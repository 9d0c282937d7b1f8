"""Commands that write pages to be looked at in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from bertc.cli.options import app, file_to_write, say


@app.command("report")
def report_(
    runs: Annotated[list[Path], typer.Argument(help="run folders, or folders of them")],
    out: Annotated[Path, file_to_write("the HTML file to write", "-o", "--out")] = Path(
        "report.html"
    ),
) -> None:
    """Write runs as one HTML page: curves, cost, scores; of several, next to each other."""
    from bertc.lab.report.report import report_page

    _write(report_page(runs), out)


def _write(page: str, out: Path) -> None:
    """Write a page and print its name; say if it takes the place of another."""
    from bertc.base.storage import durable
    from bertc.base.storage.paths import is_file

    again = is_file(out)
    durable.replace(out, page.encode(), elsewhere="name another file with -o")
    say(out)
    if again:
        say("written again, over the one that was there; -o names another", err=True)
