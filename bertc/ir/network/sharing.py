"""Parameter sharing across layers: a map from each layer to the layer that owns its weights.

A scheme is a class with ``owner(part, layer, depth)``; the norm after a part goes with the part.
All other code reads only the owner maps.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from bertc.ir.base import BY_KIND, Axis, Initializer, Node, TruncatedNormal, Weight

SharedPart = Literal["attention", "ffn"]
OUTPUTS: dict[SharedPart, str] = {"attention": "output", "ffn": "outer"}
"""The projections of the parts back to the residual stream."""
AXES: dict[SharedPart, Axis] = {"attention": "heads", "ffn": "ffn"}
"""The axis of weights along which heads or neurons of a part lie, and the setting of how many."""
Owners = tuple[Annotated[int, Field(ge=0)], ...]


def scale_by_depth(weights: Iterable[Weight], init: Initializer, depth: int) -> tuple[Weight, ...]:
    """Weights of layers, some of which are drawn with less deviation if ``init`` says so."""
    if not isinstance(init, TruncatedNormal) or not init.depth_scaled:
        return tuple(weights)
    by_layer = init.depth_scaled == "by-layer"

    def scaled(weight: Weight) -> Weight:
        part, layer, *_ = steps = weight.name.split(".")
        chosen = part == "ffn" if by_layer else steps[-2] in OUTPUTS.values()
        if weight.init != init or not chosen:
            return weight
        many = int(layer) + 1 if by_layer else depth
        return replace(weight, init=init.model_copy(update={"std": init.std / (2 * many) ** 0.5}))

    return tuple(map(scaled, weights))


class _ByPart(Node):
    """Layer 0 owns the parts that are ``shared``, every layer its other ones."""

    shared: ClassVar[tuple[SharedPart, ...]] = ()

    def owner(self, part: SharedPart, layer: int, depth: int) -> int:
        return 0 if part in self.shared else layer


class ShareNone(_ByPart):
    """Every layer has its own weights (BERT)."""

    kind: Literal["none"] = "none"


class ShareAll(_ByPart):
    """One layer, applied again and again (ALBERT 3.1, the default)."""

    kind: Literal["all"] = "all"
    shared = ("attention", "ffn")


class ShareAttention(_ByPart):
    """Attention is shared, the FFN is not (ALBERT 4.5, shared-attention)."""

    kind: Literal["attention"] = "attention"
    shared = ("attention",)


class ShareFfn(_ByPart):
    """The FFN is shared, attention is not (ALBERT 4.5, shared-FFN)."""

    kind: Literal["ffn"] = "ffn"
    shared = ("ffn",)


class ShareGroups(Node):
    """``groups`` runs of layers, each sharing all its weights (ALBERT num_hidden_groups).

    Layer l belongs to group l*groups // depth, in integers.
    """

    kind: Literal["groups"] = "groups"
    groups: Annotated[int, Field(ge=1, le=1000)]
    positional = ("groups",)

    def owner(self, part: SharedPart, layer: int, depth: int) -> int:
        group = layer * self.groups // depth
        return -(-group * depth // self.groups)


class ShareMap(Node):
    """Explicit owners, one per layer; ``ffn`` defaults to ``attention``."""

    kind: Literal["map"] = "map"
    attention: Owners
    ffn: Owners = ()
    positional = ("attention", "ffn")

    def owner(self, part: SharedPart, layer: int, depth: int) -> int:
        return self.ffn[layer] if part == "ffn" and self.ffn else self.attention[layer]


Sharing = Annotated[
    ShareNone | ShareAll | ShareAttention | ShareFfn | ShareGroups | ShareMap, BY_KIND
]


@lru_cache(256)
def owners_of(scheme: Sharing, depth: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The owners of the attention and of the FFN of each layer."""
    attention, ffn = (tuple(scheme.owner(part, n, depth) for n in range(depth)) for part in AXES)
    return attention, ffn


@lru_cache(256)
def scheme_of(attention: tuple[int, ...], ffn: tuple[int, ...]) -> Sharing:
    """The scheme with these owners: one with a name, or else their map."""
    depth = len(attention)
    kinds = (k for k in get_args(get_args(Sharing)[0]) if k.model_fields.keys() == {"kind"})
    ways: Iterator[Sharing] = chain((k() for k in kinds), [ShareGroups(groups=len({*attention}))])
    for scheme in ways:
        if owners_of(scheme, depth) == (attention, ffn):
            return scheme
    return ShareMap(attention=attention, ffn=() if ffn == attention else ffn)
