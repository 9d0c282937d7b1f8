"""The training loop, its state and session, grids, and trial runs."""
