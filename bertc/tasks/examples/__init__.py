"""Labelled examples as rows of tokens and batches."""
