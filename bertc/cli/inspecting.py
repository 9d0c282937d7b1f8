"""The command that looks inside trained runs."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertc.base.diagnostics import DataError, UsageError
from bertc.cli.options import JsonOption, RunArgument, app, file_to_write, refuse_others, say

OPTIONS = {
    "heads": ("task", "examples", "json"),
    "attention": ("text", "pair", "data", "examples", "out", "json"),
}
"""The parts of a run to inspect, and the options of each."""
MOST_TEXTS = 512


@app.command("inspect")
def inspect_(
    context: typer.Context,
    what: Annotated[Literal["heads", "attention"], typer.Argument(help="heads or attention")],
    run: RunArgument,
    task: Annotated[str, typer.Option(help="its name, or with a file to score")] = "",
    examples: Annotated[int, typer.Option(min=0, help="examples to read [0: as usual]")] = 0,
    text: Annotated[str, typer.Option(help="a text to read, up to 128 tokens")] = "",
    pair: Annotated[str, typer.Option(help="a second text after --text")] = "",
    data: Annotated[str, typer.Option(help="a file with a text a line")] = "",
    out: Annotated[Path | None, file_to_write("an HTML page of attention", "-o", "--out")] = None,
    json: JsonOption = False,
) -> None:
    """Show what the attention heads of a run are worth, or what they look at.

    heads evaluates the run without each of them, one after another. attention says what each head
    looks at, in a table or as a page of maps.
    """
    refuse_others(context, what, OPTIONS[what])
    match what:
        case "heads":
            from bertc.lab.inspect.heads import worth

            report = worth(run, task=task, examples=examples)
            say(report.as_json() if json else report.as_table())
        case "attention":
            _attention(run, text, pair, data, examples or MOST_TEXTS, out, json)


def _attention(
    run: Path, text: str, pair: str, data: str, most: int, out: Path | None, json: bool
) -> None:
    from bertc.base.storage import durable
    from bertc.base.storage.plain_file import opened
    from bertc.lab.inspect.attention import attention_of_heads
    from bertc.lab.report.attention import attention_page

    if bool(text) == bool(data) or (data and out):
        raise UsageError("attention is of one text, or of a file", help='--text "A text" -o a.html')
    if out:
        page = attention_page(run, text, pair)
        durable.replace(out, page.encode(), elsewhere="name another file with -o")
        say(out)
        return
    texts = [(text, pair)]
    if data:
        with opened(data) as file:
            lines = (line.decode("utf-8", errors="replace").strip() for line in file)
            texts = [(line, "") for line in islice(filter(None, lines), most)]
    if not texts:
        raise DataError(f"{data} has no lines", help="a text file with one text a line")
    report = attention_of_heads(run, texts)
    say(report.as_json() if json else report.as_table())
