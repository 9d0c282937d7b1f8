"""The app with all its commands: for the help, and for a word that is none of them."""

from importlib import import_module

from bertc.cli.options import HELP_GROUPS, app

__all__ = ["app"]

for _commands in HELP_GROUPS.values():
    for _module in _commands.values():
        import_module(f"bertc.cli.{_module}")
