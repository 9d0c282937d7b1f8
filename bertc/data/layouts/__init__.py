"""Files of labelled examples in official and custom layouts, read into plain values."""

from bertc.data.layouts.labels import found_labels
from bertc.data.layouts.parts import (
    dev_parts,
    part_examples,
    part_source,
    read_examples,
    require_dev_parts,
    scored_examples,
    scored_parts,
    training_examples,
)
from bertc.data.layouts.row_columns import columns_of
from bertc.data.layouts.table import source_name

__all__ = [
    "found_labels",
    "columns_of",
    "dev_parts",
    "source_name",
    "part_examples",
    "part_source",
    "read_examples",
    "require_dev_parts",
    "scored_examples",
    "scored_parts",
    "training_examples",
]
