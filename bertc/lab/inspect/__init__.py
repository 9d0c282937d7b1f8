"""The inside of a trained run: worth of heads; attention maps."""
