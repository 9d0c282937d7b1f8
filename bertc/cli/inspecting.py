"""The command that looks inside trained runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertc.base.diagnostics import UsageError
from bertc.cli.options import JsonOption, RunArgument, app, file_to_write, refuse_others, say

OPTIONS = {"heads": ("task", "examples", "json"), "attention": ("text", "pair", "out")}
"""The parts of a run to inspect, and the options of each."""


@app.command("inspect")
def inspect_(
    context: typer.Context,
    what: Annotated[Literal["heads", "attention"], typer.Argument(help="heads or attention")],
    run: RunArgument,
    task: Annotated[str, typer.Option(help="its name, or with a file to score")] = "",
    examples: Annotated[int, typer.Option(min=0, help="examples to read [0: as usual]")] = 0,
    text: Annotated[str, typer.Option(help="a text to read, up to 128 tokens")] = "",
    pair: Annotated[str, typer.Option(help="a second text after --text")] = "",
    out: Annotated[Path, file_to_write("the HTML page of attention", "-o", "--out")] = Path(
        "attention.html"
    ),
    json: JsonOption = False,
) -> None:
    """Show what the attention heads of a run are worth, or what they look at.

    heads evaluates the run without each of them, one after another. attention writes a page with
    the map of each head over a text.
    """
    refuse_others(context, what, OPTIONS[what])
    if what == "heads":
        from bertc.lab.inspect.heads import worth

        report = worth(run, task=task, examples=examples)
        say(report.as_json() if json else report.as_table())
        return
    from bertc.base.storage import durable
    from bertc.lab.report.attention import attention_page

    if not text:
        raise UsageError("attention is of a text", help='--text "A text"')
    page = attention_page(run, text, pair)
    durable.replace(out, page.encode(), elsewhere="name another file with -o")
    say(out)
