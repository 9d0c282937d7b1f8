"""Values of each layer, from settings of one number, a list, or a map."""

from bertc.ir.network.sharing import SharedPart, Sharing


def layer_values(value: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """One number per layer, from one number for all or from the head of a list."""
    return (value,) * layers if isinstance(value, int) else value[:layers]


def owners(scheme: Sharing, part: SharedPart, layers: int) -> tuple[int, ...]:
    """The owner map of a part: for each layer, the layer whose weights it uses."""
    return tuple(scheme.owner(part, layer, layers) for layer in range(layers))
