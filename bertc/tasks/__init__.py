"""Labelled examples: their layouts, rows and metrics; the data of a whole run."""
