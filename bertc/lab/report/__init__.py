"""Runs as one HTML page: curves, costs, scores, examples."""
