"""Modules for the kinds of the IR."""

from bertc.nn.model import Model, build

__all__ = ["Model", "build"]
