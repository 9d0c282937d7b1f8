"""The training loop and all that surrounds it."""
