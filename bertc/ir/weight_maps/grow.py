"""A map from the weights of a network to those of another that it begins with.

Names and shapes alone, from the two weight tables; ``run.train.state`` moves tensors.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bertc.ir.changing.growth import Beginning, Identity
from bertc.ir.network.body import Body
from bertc.ir.network.sharing import OUTPUTS
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved

_FIRST_NORM = ".attention.0.norm."
"""A norm that layer 0 may lack, and layers that begin as copies of it do not."""


class WeightMap(NamedTuple):
    """The initial values of the weights of a network.

    ``copies`` maps a weight to the old one that it copies; ``zeros`` are set to zero; ``fresh`` are
    weights of new layers and adapters, which keep their random initial values.
    """

    copies: Mapping[str, str]
    zeros: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()

    def moments(self, names: Iterable[str]) -> "WeightMap":
        """The map of the moments of the optimiser, called ``m.<weight>`` and ``v.<weight>``."""
        named = ((name, *name.split(".", 1)) for name in names)
        copies = self.copies
        return WeightMap({name: f"{m}.{copies[new]}" for name, m, new in named if new in copies})

    def is_new(self, name: str) -> bool:
        """True if a weight belongs to a new layer."""
        return name in self.zeros or name in self.fresh


def weight_map(old: Resolved, new: Resolved, growth: Beginning) -> WeightMap:
    """Map each weight of ``new`` to its source in ``old``; a shared weight has one owner."""
    known = {weight.name for weight in model_weights(old)}
    copies, zeros, fresh = dict[str, str](), set[str](), set[str]()
    for weight in model_weights(new):
        name, pair = weight.name, weight.part == "adapter"
        source = _source(name, old, new, growth)
        if source in known:
            copies[name] = source
        elif source == "" or _FIRST_NORM in source or pair:
            # A new layer of zero outputs adds nothing.
            zero = isinstance(growth, Identity) and name.split(".")[-2] in OUTPUTS.values()
            zero = zero and not pair
            (zeros if zero else fresh).add(name)
    return WeightMap(copies, frozenset(zeros), frozenset(fresh))


def _source(name: str, old: Resolved, new: Resolved, growth: Beginning) -> str:
    """The name of the old weight; empty for a weight of a new layer."""
    network, part, *rest = name.split(".")
    before, after = _body(old, network), _body(new, network)
    if before is None or after is None or part not in before.owners:
        return name
    layer, *leaf = rest
    source = growth.source(int(layer), before.depth, after.depth)
    if source is None:
        return ""
    return ".".join((network, part, str(before.owners[part][source]), *leaf))


def _body(resolved: Resolved, name: str) -> Body | None:
    return {network.name: network.body for network in resolved.learned}.get(name)
