"""Runs: training in time order, the run folder, evaluation."""
