"""Text to packed token ids: read, split, tokenise, pack, order."""
