"""Keyed random numbers, and sequential draws resolved in parallel."""
