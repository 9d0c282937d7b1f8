"""Milliseconds of answering texts: cases, and their table."""
