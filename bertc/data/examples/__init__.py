"""Labelled examples as rows and batches."""
