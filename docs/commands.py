"""Write docs/commands.md from the command line itself: groups, commands and their options.

python docs/commands.py
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from bertc.cli.app import app
from bertc.cli.options import HELP_GROUPS

PAGE = Path(__file__).parent / "commands.md"
BEGINNING = """\
# Commands

`bertc COMMAND --help` has the arguments. A SPEC is [a spec](language.md); `--set key=value`
overrides a setting. Results go to stdout, all else to stderr.
"""
END = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | done, with findings: mistakes for `check`, a difference, nothing in the budget, another form |
| 2 | wrong usage |
| 65 | a mistake in a spec or in data |
| 66 | an input is missing |
| 70 | an internal error: please report it |
| 74 | cannot write |
| 75 | stopped and resumable: its process or a store was lost, or another process has the run |
| 76 | resume refused |
| 77 | unsafe input |
| 78 | this machine cannot do it |
| 130, 143 | stopped by Ctrl-C or SIGTERM, saved and resumable |
"""


def lines() -> Iterator[str]:
    """The page in lines: a table for each group of commands, then exit codes."""
    yield BEGINNING
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for title, names in HELP_GROUPS.items():
        yield f"## {title}\n\n| command | what it does | options |\n|---|---|---|"
        for name in names:
            parts = getattr(commands[name], "commands", {"": commands[name]})
            yield from (row(f"{name} {part}".strip(), parts[part]) for part in parts)
        yield ""
    yield END.rstrip()


def row(name: str, command: Any) -> str:
    """The row of a command: its arguments, first sentence and options."""
    arguments = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
    options = [f"`{p.opts[-1]}`" for p in command.params
               if p.param_type_name == "option" and not p.hidden and p.name != "help"]  # fmt: skip
    meaning = " ".join((command.help or "").split("\n\n")[0].split())
    return f"| `{' '.join([name, *arguments])}` | {meaning} | {' '.join(options)} |"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
