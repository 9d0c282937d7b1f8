"""Kernels in C for what a CPU does between products; where no compiler is, there are none."""

from bertc.native.kernels import Dropped, Kernels, drop, kernels_for, missing

__all__ = ["Dropped", "Kernels", "drop", "kernels_for", "missing"]
