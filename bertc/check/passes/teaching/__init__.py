"""Checks of teachers, and what their terms compare."""
