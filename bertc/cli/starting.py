"""Commands to begin with: the shipped specs, a first spec, and specs in an editor."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from bertc.base.diagnostics import BertcError, MissingInputError, UsageError
from bertc.cli.options import JsonOption, app, file_to_write, option, say


@app.command()
def specs(json: JsonOption = False) -> None:
    """List the shipped specs: name, parameters, paper, and what each is.

    `extends NAME` builds on one, `bertc build NAME --emit resolved` prints all of one.
    """
    from bertc.lab.starting.gallery import gallery, gallery_json, gallery_table

    say((gallery_json if json else gallery_table)(gallery()))


@app.command()
def init(
    text: str | None = option(None, "a file, folder or pattern; or what is to come: 20 GB"),
    language: str = option("", "its code, such as fr"),
    budget: str | None = option(None, "a size or a budget: 14M, 8h, 1e18"),
    purpose: str | None = option(None, "pretrain, classify, tag, squad or embed", "--for"),
    machine: str | None = option(None, "cpu, h100, h100x8, ..."),
    begin: str = option("", "a run or model folder to begin from", "--init"),
    out: Path | None = file_to_write(
        None, "a new file for the spec [default: print it]", "-o", "--out"
    ),
) -> None:
    """Write a first spec from four answers, with its estimate; asks for those not given.

    The data are looked at: format, size, columns and labels. The spec says each guess, to be
    changed there. Off a terminal only --text has to be given.
    """
    from bertc.base.storage.durable import write, writing
    from bertc.base.storage.paths import is_taken
    from bertc.lab.fit.fitting import budget_named, machine_named
    from bertc.lab.starting.init import Answers, look_at_data, purposes, start

    if out and is_taken(out):
        raise UsageError(f"{out} is there already", help="-o with another name, or remove it")
    which = "Which text or examples (a file, folder or pattern; or 20 GB of German)?"
    seen = _answer(which, text, None, look_at_data)
    limit = _answer("Which size or budget (14M, 8h, 1e18)?", budget, "1h", budget_named)
    known = purposes(seen)
    aim = _answer(f"What for ({', '.join(known)})?", purpose, known[0], _purpose)
    place = _answer("Which machine (cpu, h100, h100x8)?", machine, "cpu", machine_named)
    spec = start(seen, Answers(language, limit, aim, place, begin))
    if out is None:
        say(spec, nl=False)
        return
    with writing(out, elsewhere="-o in another folder"):
        write(out, spec.encode())
    comments = [line for line in spec.splitlines() if line.startswith("#")]
    say("\n".join([*(line[2:] for line in comments), f"{out}: bertc train {out}"]))


@app.command()
def lsp() -> None:
    """Answer an editor, which starts this: mistakes, completions and meanings while one types."""
    try:
        from bertc.lab.editor.server import create
    except ImportError:
        message = "pygls is not installed, which the language server needs"
        raise MissingInputError(message, "pip install -c constraints.txt -e '.[editor]'") from None
    create().start_io()


def is_terminal() -> bool:
    """True if someone is there to answer."""
    return sys.stdin.isatty()


def _purpose(text: str) -> Any:
    from bertc.lab.starting.init import NEEDS

    if text in NEEDS:
        return text
    raise UsageError(f"--for {text[:40]}: unknown", help=f"--for {' or '.join(NEEDS)}")


def _answer(
    question: str, option: str | None, default: str | None, read: Callable[[str], Any]
) -> Any:
    """The answer given as an option, else typed until it can be read, or the default."""
    while option is None and is_terminal():
        typed = typer.prompt(question, default=default, show_default=bool(default), err=True)
        try:
            return read(typed)
        except BertcError as error:
            say(f"{error.message}" + f" ({error.help})" * bool(error.help), err=True)
    answer = default if option is None else option
    if answer is None:
        raise UsageError("nothing says which text to learn from", help="--text FILE")
    return read(answer)
