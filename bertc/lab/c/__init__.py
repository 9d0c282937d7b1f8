"""A run as a program in C99, with its weights in a file next to it."""
