"""Parts of a network as values, with their weights and operations."""
