"""Models that leave: which layout holds them, and what is written."""
