"""Text to batches: read, split, tokenise once, arrange in rows, draw in a keyed order."""
