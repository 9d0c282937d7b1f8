"""The parts of a network as values: what they are, their weights, their operations."""
