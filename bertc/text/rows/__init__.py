"""Tokenised text, and which part of it is in which row."""
