"""One optimiser step, and its batches."""
