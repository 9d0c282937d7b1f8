"""Files of labelled examples: official layouts and one's own, read into plain values."""

from bertc.data.layouts.labels import found_labels
from bertc.data.layouts.parts import (
    judged_parts,
    part_examples,
    read_examples,
    training_examples,
)

__all__ = [
    "found_labels",
    "judged_parts",
    "part_examples",
    "read_examples",
    "training_examples",
]
