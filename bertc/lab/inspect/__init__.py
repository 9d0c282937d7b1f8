"""The inside of a trained run: worth of heads and layers; attention maps."""
