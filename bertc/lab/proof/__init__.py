"""Proof vectors: what a network computes of some texts, and whether another program does."""
