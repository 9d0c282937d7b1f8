"""Beginnings, growth and pruning of networks, as frozen values."""
