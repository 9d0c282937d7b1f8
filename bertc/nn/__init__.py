"""Modules for the kinds of the IR."""

from bertc.nn.embeddings import places
from bertc.nn.memory import Memory
from bertc.nn.model import Model, build
from bertc.nn.reading import Reading, rows_at

__all__ = ["Memory", "Model", "Reading", "build", "places", "rows_at"]
