"""Modules for the kinds of the IR."""

from bertc.nn.dropout import dropout
from bertc.nn.inputs import Order, Reading, rows_at
from bertc.nn.memory import Memory
from bertc.nn.model import Model, build
from bertc.nn.positions import places

__all__ = [
    "Reading",
    "Memory",
    "Model",
    "Order",
    "build",
    "dropout",
    "rows_at",
    "places",
]
