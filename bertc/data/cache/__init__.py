"""Prepared data on disk, and the processes that prepare it."""
