"""Weights that a stage begins with: from other models, files, and the stage before."""
