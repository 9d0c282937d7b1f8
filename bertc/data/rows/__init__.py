"""Tokenised text, and which part of it stands in which row."""
