"""Text to batches: read, tokenised once, arranged in rows, drawn by key."""
