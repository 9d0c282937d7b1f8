"""Terms learned from teachers."""
