"""Attention: kinds of it, masks, distances, and how each is computed."""
