"""Text and labelled examples to batches: read, tokenise once, arrange in rows, draw by key."""
