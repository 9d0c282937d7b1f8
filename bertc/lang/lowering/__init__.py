"""Tree to program: names become settings and kinds, values get their types."""
