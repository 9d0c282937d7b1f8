"""C kernels for the CPU's work between matrix products; absent without a compiler."""

from bertc.model.native.kernels import (
    Dropped,
    Kernels,
    drop,
    dropout,
    kernels_for,
    missing,
    with_gradient,
)

__all__ = ["Dropped", "Kernels", "drop", "dropout", "kernels_for", "missing", "with_gradient"]
