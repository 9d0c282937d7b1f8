"""The commands; each reads its arguments, calls one function and prints its result."""

from bertc.commands import following, latency, machine, pages, specs, training, using
from bertc.commands.options import app, in_color

__all__ = [
    "app",
    "following",
    "in_color",
    "latency",
    "machine",
    "pages",
    "specs",
    "training",
    "using",
]
