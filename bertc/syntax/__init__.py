"""Text to tree to program, and back to canonical text."""
