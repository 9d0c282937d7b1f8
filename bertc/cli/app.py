"""The commands; each reads its arguments, calls one function and prints its result."""

from bertc.cli import (
    benching,
    following,
    inspecting,
    machine,
    pages,
    reproducing,
    searching,
    specs,
    starting,
    training,
    using,
)
from bertc.cli.options import app, app_for, in_color

__all__ = [
    "app",
    "app_for",
    "benching",
    "following",
    "in_color",
    "inspecting",
    "machine",
    "pages",
    "reproducing",
    "searching",
    "specs",
    "starting",
    "training",
    "using",
]
