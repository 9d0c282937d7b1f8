"""The app with all its commands: for the help, and for a word that is none of them."""

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
from bertc.cli.options import app

__all__ = [
    "app",
    "benching",
    "following",
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
