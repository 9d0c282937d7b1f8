"""A program as one readable file of PyTorch: recorded from its modules, and written."""
