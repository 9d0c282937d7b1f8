"""Values of each layer, from settings of one number, a list, or a map, and heads that fit."""

from bertc.ir.network.attention_node import ContentAttention
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.network.sharing import SharedPart, Sharing
from bertc.ir.program.complete import Complete


def layer_values(value: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """One number per layer, from one number for all or from the head of a list."""
    return (value,) * layers if isinstance(value, int) else value[:layers]


def owners(scheme: Sharing, part: SharedPart, layers: int) -> tuple[int, ...]:
    """The owner map of a part: for each layer, the layer whose weights it uses."""
    return tuple(scheme.owner(part, layer, layers) for layer in range(layers))


def key_heads(program: Complete) -> int:
    """The number that heads of queries are a multiple of."""
    node = program.attention
    return (isinstance(node, ContentAttention) and node.kv_heads) or 1


def turns_pairs(program: Complete, width: int) -> bool:
    """True if positions that turn pairs of numbers can do so in a head of this width."""
    positions = program.positions
    turned = positions.turned(width) if isinstance(positions, RotaryPositions) else 2
    return turned >= 2 and turned % 2 == 0


def fitting_heads(program: Complete, near: int, hidden: int, multiple: int = 1) -> list[int]:
    """Numbers of heads that divide a width into heads as positions need them, the nearest first."""
    numbers = (number for number in range(multiple, hidden + 1, multiple) if hidden % number == 0)
    fitting = (number for number in numbers if turns_pairs(program, hidden // number))
    return sorted(fitting, key=lambda number: abs(number - near))


def one_for_all(program: Complete, setting: str, near: int) -> str:
    """A setting of one number for all layers; heads are those nearest to it that fit."""
    if setting == "heads" and program.origins["head_dim"].kind == "derived":
        near = next(iter(fitting_heads(program, near, program.hidden, key_heads(program))), near)
    return f"{setting}={near}"
