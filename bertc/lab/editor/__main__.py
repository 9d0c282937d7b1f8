"""The language server on standard input and output: ``python -m bertc.lab.editor``."""

import sys

MISSING = 66
"""The exit code of commands that lack an input."""
HELP = """\
error: pygls is not installed, which the language server needs
help: pip install -c constraints.txt -e '.[editor]'"""


def answer_editor() -> None:
    """Answer an editor until it ends the session."""
    try:
        from bertc.lab.editor.server import create
    except ImportError:
        print(HELP, file=sys.stderr)
        sys.exit(MISSING)
    create().start_io()


if __name__ == "__main__":
    answer_editor()
