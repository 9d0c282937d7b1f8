"""The inside of a trained run: worth of heads, layers and context; attention maps."""
