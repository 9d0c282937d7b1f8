"""The command-line app, and arguments shared by several commands."""

import os
import re
from collections.abc import Collection, Sequence
from copy import copy
from functools import partial
from glob import escape, glob
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup
from typer.main import get_command_name

from bertc.base.diagnostics import UsageError, for_terminal
from bertc.base.storage.paths import is_folder, shipped_specs, working_folder

HELP_GROUPS = {
    "Write a spec": {
        "init": "starting", "specs": "starting", "check": "specs", "explain": "specs",
        "fmt": "specs", "estimate": "specs", "fit": "specs", "lsp": "starting",
    },
    "Train": {
        "build": "specs", "prepare": "specs", "show-batch": "specs", "train": "training",
        "watch": "following", "runs": "following",
    },
    "Use a trained model": {
        "eval": "using", "glue": "reproducing", "fill": "using", "predict": "using",
        "embed": "using",
    },
    "Exchange": {"import": "using", "export": "using", "verify": "using"},
    "Lab": {
        "reproduce": "reproducing", "sweep": "reproducing", "forecast": "reproducing",
        "report": "following", "bench": "reproducing",
    },
}  # fmt: skip
"""The commands of each group of ``--help``, as people need them, and the module of each."""
QUICK = ("specs", "check", "explain", "fmt", "estimate", "fit", "report", "runs")
"""Commands that soon end: nearly all that they make is in use till then, so none is collected."""


class _InGroups(TyperGroup):
    """The commands in their groups, each with all of the first paragraph of its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = [name for names in HELP_GROUPS.values() for name in names]
        return sorted(self.commands, key=order.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for group, names in HELP_GROUPS.items():
            commands = ((name, self.commands[name].help or "") for name in names)
            with formatter.section(group):
                formatter.write_dl(
                    [(name, " ".join(help.split("\n\n")[0].split())) for name, help in commands]
                )


app = typer.Typer(
    cls=_InGroups, add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    help="A compiler for text encoders: check, estimate, build and train a spec.",
)  # fmt: skip


def app_for(words: list[str]) -> typer.Typer:
    """The app with the command alone that these words begin with, or whole.

    typer looks at the arguments of every command: of thirty that takes longer than a check.
    """
    first = words[0] if words else ""
    module = next((names[first] for names in HELP_GROUPS.values() if first in names), "app")
    import_module(f"bertc.cli.{module}")
    if module == "app":
        return app
    small = copy(app)
    small.registered_commands = [
        info
        for info in app.registered_commands
        if info.callback and (info.name or get_command_name(info.callback.__name__)) == first
    ]
    return small


def refuse_unquoted(specs: list[str] | None) -> list[str]:
    """Refuse specs that look like one spec of several settings without its quotes."""
    specs = specs or []
    if specs[:1] == ["="]:
        value = specs[1] if specs[1:] else "VALUE"
        raise typer.BadParameter(f'a setting is one word: --set "NAME={value}"')
    lone = [re.fullmatch(r"(\w+)=[^\s=]+", spec) for spec in specs]
    names = {match.group(1) for match in lone if match}
    if len(specs) > 1 and ("=" in specs or len(names) == len(specs)):
        raise typer.BadParameter(f'did you forget the quotes around one spec? "{" ".join(specs)}"')
    return specs


def complete_spec(incomplete: str) -> list[str]:
    """Complete in a shell: shipped specs, spec files and folders."""
    paths = (f"{path}/" * os.path.isdir(path) or path for path in glob(f"{escape(incomplete)}*"))
    files = sorted(path for path in paths if path.endswith(("/", ".bertc")))
    return [*(name for name in shipped_specs() if name.startswith(incomplete)), *files]


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    """An option: its default, its help, and its names if others than that of the parameter."""
    return Option(default, *names, help=help, **more)


def argument(default: Any, help: str, **more: Any) -> Any:
    """An argument that may be left out: its default and its help."""
    return Argument(default, help=help, **more)


spec_argument = partial(argument, autocompletion=complete_spec)
SpecArgument = Annotated[
    str, spec_argument(..., "a file, a shipped spec's name, the text, or - for standard input")
]
SPECS = "files, shipped names, texts, or - for standard input"
SpecsArgument = Annotated[list[str], spec_argument(..., SPECS, callback=refuse_unquoted)]
SetOption = Annotated[
    list[str] | None, Option("--set", help="override a setting: key=value (repeatable)")
]
JsonOption = Annotated[bool, Option("--json", help="print JSON")]


def _in_a_folder(path: Path | None) -> Path | None:
    """Refuse a path in a folder that does not exist, before the work is done."""
    if path and not is_folder((working_folder() / path).parent):
        raise typer.BadParameter(f"there is no folder {path.parent}")
    return path


def file_to_write(default: Any, help: str, *names: str) -> Any:
    """An option that names a file in an existing folder."""
    return option(default, help, *names, dir_okay=False, callback=_in_a_folder)


RunArgument = Annotated[Path, Argument(help="a run or model folder")]


def spec_words(spec: str, overrides: Sequence[str] | None) -> list[str]:
    """The words of a spec for other processes, which do not share standard input."""
    from bertc.lang.files import STANDARD_INPUT, spec_text

    text = spec_text(spec) if spec == STANDARD_INPUT else spec
    return [text, *(word for override in overrides or () for word in ("--set", override))]


def refuse_others(context: typer.Context, what: str, names: Collection[str]) -> None:
    """Refuse options of a command that have no effect on what it does now."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and option.param_type_name == "option" and option.name not in names:
            help = f"its options: {', '.join(f'--{name}' for name in names)}"
            raise UsageError(f"{option.opts[-1]} has no effect on {what}", help=help)


def say(text: object, *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print a result on stdout, or remarks on stderr, by ``for_terminal``.

    ``styled`` text has colours, and was made safe where it was made.
    """
    typer.echo(text if styled else for_terminal(str(text)), err=err, nl=nl)


def _say_version(wanted: bool) -> None:
    if wanted:
        from bertc import __version__

        say(f"bertc {__version__}")
        raise typer.Exit


@app.callback()
def of_all_commands(
    version: bool = option(
        False, "print the version", "-V", "--version", is_eager=True, callback=_say_version
    ),
    classes: bool = option(False, "run the classes of own(...); after a command too", "--own"),
) -> None:
    """Options before the command."""


def in_color(stream: object) -> bool:
    """True if the stream is a terminal and NO_COLOR is not set."""
    return bool(getattr(stream, "isatty", bool)()) and "NO_COLOR" not in os.environ
