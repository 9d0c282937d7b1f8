"""Terms learned from text."""
