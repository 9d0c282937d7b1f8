"""Milliseconds of answering texts: cases, their prediction, and the table of both."""
