"""The commands; each reads its arguments, calls one function and prints its result."""

from bertc.commands import editor, latency, machine, searching, specs, starting, training, using
from bertc.commands.options import app, in_color

__all__ = [
    "app",
    "editor",
    "in_color",
    "latency",
    "machine",
    "searching",
    "specs",
    "starting",
    "training",
    "using",
]
