"""Adapters: small trained maps next to frozen maps of layers, which later are added into them.

With an adapter the rest of an encoder is frozen, but for the pooler, which belongs to the head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, ZEROS, FanIn, Node, Probability, Weight

MapName = Literal["query", "key", "value", "output", "gate", "inner", "outer"]
Adapted = Literal["attention", "ffn", "query", "key", "value", "output", "gate", "inner", "outer"]
"""A part of each layer, which stands for its maps, or a map."""
MAPS: dict[str, tuple[MapName, ...]] = {
    "attention": ("query", "key", "value", "output"),
    "ffn": ("gate", "inner", "outer"),
}
OF_PAIRS = ("lora_a", "lora_b")
"""The names of the two maps of a pair."""


class NoAdapter(Node):
    """Weights are trained themselves."""

    kind: Literal["none"] = "none"

    def weights(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of a part with those of its pairs: none."""
        return tuple(weights)

    def operations(self, operations: op.Operations) -> op.Operations:
        """The operations of a part with those of its pairs: none."""
        return operations

    def frozen(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of an encoder, those marked that are never trained: none."""
        return tuple(weights)


class Lora(Node):
    """Pairs of narrow maps that are added to frozen ones (Hu et al. 2021).

    x W^T becomes x W^T + alpha / rank (x A^T) B^T (section 4.1). A begins as peft's does, uniform
    within +-inputs^-1/2, B with zeros. ``on``: the maps that have such a pair; in table 9 there and
    peft's defaults for BERT they are queries and values. ``dropout`` on x before A.
    """

    kind: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1, le=10_000)] = 8  # peft LoraConfig r; table 9
    alpha: Annotated[float, Field(gt=0, le=1_000_000)] = 8.0  # peft LoraConfig lora_alpha
    on: Adapted | Annotated[tuple[Adapted, ...], Field(min_length=1)] = ("query", "value")
    dropout: Probability = 0.0  # peft LoraConfig lora_dropout
    positional = ("rank", "alpha", "on", "dropout")

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    @property
    def maps(self) -> frozenset[str]:
        """The names of the maps that have a pair."""
        named = (self.on,) if isinstance(self.on, str) else self.on
        return frozenset(name for part in named for name in MAPS.get(part, (part,)))

    def weights(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of a part, each adapted map followed by its pair."""
        return tuple(one for weight in weights for one in (weight, *self._pair(weight)))

    def _pair(self, weight: Weight) -> Iterator[Weight]:
        *path, name, leaf = weight.name.split(".")
        if leaf != "weight" or name not in self.maps:
            return
        (outputs, inputs), (outer, inner) = weight.shape, weight.axes
        first, second = (".".join((*path, name, one)) for one in OF_PAIRS)
        rank = self.rank
        yield Weight(first, (rank, inputs), ("rank", inner), FanIn(), "adapter", "matrix")
        yield Weight(second, (outputs, rank), (outer, "rank"), ZEROS, "adapter", "matrix")

    def operations(self, operations: op.Operations) -> op.Operations:
        """The operations of a part; maps of the same states have their pairs side by side."""
        return tuple(one for made in operations for one in (made, *self._beside(made)))

    def _beside(self, made: op.Operation) -> Iterator[op.Operation]:
        many = len(self.maps & {*made.names}) if isinstance(made, op.Product) else 0
        if not isinstance(made, op.Product) or not many:
            return
        width = many * self.rank
        pair = replace(made, maps=many, names=(), adapts=True)
        if self.dropout:
            yield op.Dropout(made.rows, made.inner)
        yield replace(pair, columns=width, constant=made.of_weights)
        yield replace(pair, inner=width, keeps_rows=True)
        yield op.Pointwise("add", made.rows * made.columns)

    def frozen(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of an encoder, all marked as frozen but pairs and pooler."""
        return tuple(replace(w, frozen=w.part not in ("adapter", "pooler")) for w in weights)


Adapter = Annotated[NoAdapter | Lora, BY_KIND]
"""The closed union of adapters."""
NO_ADAPTER = NoAdapter()
