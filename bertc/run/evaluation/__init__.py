"""Held-out evaluation of objectives and of tasks."""
