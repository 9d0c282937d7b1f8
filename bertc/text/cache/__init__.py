"""Prepared data on disk, and the worker processes that prepare it."""
