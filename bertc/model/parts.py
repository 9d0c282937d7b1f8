"""Names of the parts of a step, for a profiler that watches."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch.autograd import profiler

PartName = Literal[
    "embeddings", "attention", "ffn", "recurrence", "layers", "head", "teacher", "optimiser",
    "loader",
]  # fmt: skip
"""``layers``: attention and feed-forward parts that were compiled as one; ``teacher``: all parts
of frozen networks."""


def profile_as(name: PartName) -> AbstractContextManager[Any]:
    """Call what the block does a part of the step; does nothing where no profiler watches."""
    # A compiled layer is one operation; the flag would be guarded, and a profile compile it again.
    if torch.compiler.is_compiling() or not profiler._is_profiler_enabled:
        return nullcontext()
    return profiler.record_function(name)
