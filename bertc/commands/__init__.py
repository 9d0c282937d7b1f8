"""The commands; each reads its arguments, calls one function and prints its result."""

from bertc.commands import latency, machine, pages, specs, training, using
from bertc.commands.options import app, in_color

__all__ = ["app", "in_color", "latency", "machine", "pages", "specs", "training", "using"]
