"""Published tables as data: rows of specs to train, and what came out beside the paper."""
