"""One optimiser step, and the batches that it reads."""
