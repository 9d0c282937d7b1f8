"""A compiler for text encoders."""
