"""Benchmarks: the training step of a spec, timed beside other systems."""

from bertc.bench.run import bench

__all__ = ["bench"]
