"""Growing: which weight of the old network each weight of the deeper one begins as.

Names and shapes alone, from the two weight tables; ``bertc.train.growth`` moves the tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.growth import FromGenerator, Growth, Identity, Interleave, Stack
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved

OWNERS = {"attention": "attention_owner", "ffn": "ffn_owner"}
"""Parts that exist once a layer, and who owns them."""
OUTPUTS = ("output", "outer")
"""The maps of attention and of the feed-forward part back to the residual stream."""


@dataclass(frozen=True)
class WeightMap:
    """What the weights of a network are at first.

    ``copies`` maps a weight to the old one that it is a copy of; those in ``zeros`` are zero; those
    in ``fresh`` belong to new layers, and have their initial values as all others have.
    """

    copies: Mapping[str, str]
    zeros: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()

    def moments(self) -> "WeightMap":
        """The same for the two moments of each weight: what is not copied was never updated."""
        pairs = self.copies.items()
        return WeightMap({f"{m}.{new}": f"{m}.{old}" for m in "mv" for new, old in pairs})

    def made(self, name: str) -> bool:
        """Whether a weight belongs to a layer that is new."""
        return name in self.zeros or name in self.fresh


def weight_map(old: Resolved, new: Resolved, growth: Growth) -> WeightMap:
    """Where the weights of ``new`` come from. What is shared has one owner, so is copied once.

    A layer takes after the layer that ``growth`` names; an owner stands for its borrowers.
    """
    known = {weight.name for weight in model_weights(old)}
    copies, zeros, fresh = dict[str, str](), set[str](), set[str]()
    for name in (weight.name for weight in model_weights(new)):
        source = _source(name, old, new, growth)
        told = source.replace("encoder.", "generator.", 1)
        if isinstance(growth, FromGenerator) and told in known:  # what is tied is there already
            source = told
        if source in known:
            copies[name] = source
        elif source == "":
            (zeros if _silent(name, growth) else fresh).add(name)
    return WeightMap(copies, frozenset(zeros), frozenset(fresh))


def _source(name: str, old: Resolved, new: Resolved, growth: Growth) -> str:
    """The old name of a weight; empty for one of a layer that is new."""
    network, part, *rest = name.split(".")
    before, after = _network(old, network), _network(new, network)
    if before is None or after is None or part not in OWNERS:
        return name
    layer, *leaf = rest
    source = growth.source(int(layer), len(before.layers), len(after.layers))
    if source is None:
        return ""
    owner: int = getattr(before, OWNERS[part])[source]
    return ".".join((network, part, str(owner), *leaf))


def _network(resolved: Resolved, name: str) -> Encoder | None:
    return {"encoder": resolved.encoder, "generator": resolved.generator}.get(name)


def _silent(name: str, growth: Growth) -> bool:
    """Whether a weight of a new layer is zero, so that the layer adds nothing."""
    match growth:
        case Identity():
            return name.split(".")[-2] in OUTPUTS
        case Stack() | Interleave() | FromGenerator():
            return False
        case unreachable:
            assert_never(unreachable)
