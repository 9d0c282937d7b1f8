"""Checks: facts of other files, then passes, from a text to programs with nothing left open."""
