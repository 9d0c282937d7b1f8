"""Batches in a keyed order: a function of the seed and the step alone."""
