"""The command that an editor starts."""

from bertc.commands.options import app
from bertc.diagnostics import MissingInputError

INSTALL_EDITOR = "pip install -c constraints.txt -e '.[editor]'"


@app.command()
def lsp() -> None:
    """Answer an editor on standard input and output, as a language server for specs.

    It reports mistakes while you type, with their fixes; completes settings, kinds, specs and
    files; tells what a word means and what a setting costs; formats; and leads to a base. An editor
    starts it: docs/how-to/editor.md has the settings for VS Code, Neovim and Helix.
    """
    try:
        import pygls  # noqa: F401
    except ImportError:
        message = "pygls is not installed, which the language server needs"
        raise MissingInputError(message, help=INSTALL_EDITOR) from None
    from bertc.editor.requests import create

    create().start_io()
