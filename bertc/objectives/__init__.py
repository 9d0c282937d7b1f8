"""Corruption and loss of each objective, as tensor functions."""
