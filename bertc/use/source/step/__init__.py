"""The training of a program, for its file."""
