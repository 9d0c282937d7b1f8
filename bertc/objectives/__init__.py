"""Corruption and loss of each objective, as tensor functions."""

from bertc.objectives.columns import (
    Boundaries,
    Columns,
    Inputs,
    Predictions,
    Tables,
    TermLoss,
    make_tables,
    tables_to,
)
from bertc.objectives.corruption import corrupt
from bertc.objectives.heads import mlm_logits, pair_logits, sbo_logits
from bertc.objectives.loss import denominator, losses

__all__ = [
    "Boundaries",
    "Columns",
    "Inputs",
    "Predictions",
    "Tables",
    "TermLoss",
    "corrupt",
    "denominator",
    "losses",
    "make_tables",
    "mlm_logits",
    "pair_logits",
    "sbo_logits",
    "tables_to",
]
