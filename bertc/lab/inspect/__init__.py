"""The inside of a trained run: the worth of its heads."""
