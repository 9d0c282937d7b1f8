"""Prediction of the time and memory of answering texts in a case."""

from bertc import Resolved, answer_cost
from bertc.lab.latency.cases import Case
from bertc.lab.latency.table import Figures

TOKENS_OF_A_TEXT = 128
"""Length of the text that stands for all where none is given, as in ``bertc bench --latency``."""


def predicted(resolved: Resolved, case: Case) -> Figures | None:
    """Time and memory of a case on this CPU; None for other runtimes than torch."""
    setup, shape = case.setup, case.shape
    if setup.runtime != "torch" or setup.precision == "int8":
        return None
    figures = answer_cost(
        resolved, shape.length, shape.batch, threads=setup.threads, precision=setup.precision
    )
    return Figures(figures.seconds, memory_bytes=figures.memory_bytes)
