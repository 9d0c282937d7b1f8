"""The command line."""

from __future__ import annotations

import sys

from bertc.commands import app, in_color


def main() -> None:
    """Run a command; every failure becomes a message and an exit code of the table."""
    from bertc.failures import exit_code

    try:
        code = app(standalone_mode=False)  # of an Exit; None when a command just ends
    except BaseException as error:  # the one place where nothing may pass
        code = exit_code(error, color=in_color(sys.stderr))
    sys.exit(code)


if __name__ == "__main__":
    main()
