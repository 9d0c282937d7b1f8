"""Freezing of a network or of its layers, and adapters next to frozen maps.

Adapters are small trained maps, which later are added into the maps of layers. With one the rest of
an encoder is frozen, but for the pooler, which belongs to the head.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bertc.base.diagnostics import listed, several
from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, ZEROS, FanIn, Node, Probability, Weight
from bertc.ir.changing.growth import FromOther
from bertc.ir.fixes import Rule, Rules, Way, argument
from bertc.ir.methods.method import Frozen, Method, removing
from bertc.ir.network.ffn import feed_forward
from bertc.ir.network.positions import TablePositions
from bertc.ir.own import Own
from bertc.ir.vocabulary import Trimmed

Freeze = Annotated[int, Field(ge=0, le=1000)] | Literal["embeddings", "positions", "all"]
"""Layers that are not trained, nor the embeddings below them; 0: all are trained.

``positions``: the position table alone is not (DistilBERT). Of ``all`` nothing of the network is,
but for a pooler, which belongs to the head; it is read without dropout (BERT extract_features.py,
is_training=False).
"""


class Freezing(Method):
    """The part ``what`` of the main network, which has no gradient."""

    what: Freeze

    setting = "freeze"
    rules = Rules(stage=(
        Rule("E274", "freeze", lambda s: isinstance(s.freeze, int) and s.freeze > s.layers,
             lambda s: f"freeze = {s.freeze}, but the network has {several(s.layers, 'layer')}",
             also=lambda s: ("layers", f"layers = {s.layers}"),
             label="with all of them frozen, only heads and pooler are trained",
             help=lambda s: f"freeze={s.layers}"),
        Rule("E274", "freeze",
             lambda s: s.freeze == "positions" and not isinstance(s.positions, TablePositions),
             lambda s: f"freeze = positions, but positions = {s.positions.kind} has no table",
             also=("positions", "positions are set here"), help="freeze=0"),
    ))  # fmt: skip

    def freezes(self, depth: int) -> Frozen:
        named = {"embeddings": Frozen(0), "positions": Frozen(positions=True)}
        named["all"] = Frozen(depth, whole=True)
        return named[self.what] if isinstance(self.what, str) else Frozen(self.what)


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
    maps: ClassVar = frozenset[str]()

    def weights(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of a part with those of its pairs: none."""
        return tuple(weights)

    def operations(self, operations: op.Operations) -> op.Operations:
        """The operations of a part with those of its pairs: none."""
        return operations

    def mark_frozen(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of an encoder, those marked that are never trained: none."""
        return tuple(weights)


class Lora(Method):
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

    setting = "adapt"
    rules = Rules(network=(
        Rule("E361", "adapt.on", lambda s: s.adapt.lacking(s),
             lambda s: f"on = {listed(s.adapt.lacking(s))}, but layers have "
             f"{listed(present_maps(s)) or 'none'}",
             also=("activation", "activation is set here"),
             label="what is within parts of your own is not adapted",
             way=lambda s: _on_what_there_is(s)),
        Rule("E360", "freeze", lambda s: s.freeze,
             "adapt freezes all of the network but its pooler, and freeze says to what height",
             also=("adapt", "adapt is set here"), help="freeze=0"),
        Rule("E360", removing, removing,
             lambda s: f"what {removing(s)} sets to zero an adapter would train again",
             also=("adapt", "adapt is set here"), help=lambda s: f"{removing(s)}=none",
             label="set it in a run that begins with this one"),
        Rule("E360", "adapt", lambda s: s.generator.kind == "network",
             "adapt freezes the tables that a generator shares with the network and trains",
             also=("generator", "generator is set here"), help="adapt=none"),
    ), remarks=(
        Rule("R126", "adapt", lambda p: not isinstance(p.init, FromOther),
             "adapt without init freezes a network of random weights",
             help='name a run or a model folder, as in init="runs/albert"'),
        Rule("R126", "adapt",
             lambda p: isinstance(p.init, FromOther) and not p.init.same_tokens
             and not isinstance(p.vocab, Trimmed),
             "adapt freezes the rows of new tokens as they begin: none of them is learned",
             also=("vocab", "the vocabulary is not that of init"),
             help="train without adapt first, and name that run as init"),
    ))  # fmt: skip

    def lacking(self, stage: Any) -> list[str]:
        """The maps that are to have a pair and that layers lack."""
        named, present = (self.on,) if isinstance(self.on, str) else self.on, present_maps(stage)
        return [name for name in named if not {*MAPS.get(name, (name,))} & {*present}]

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
        return tuple(part for weight in weights for part in (weight, *self._pair(weight)))

    def _pair(self, weight: Weight) -> Iterator[Weight]:
        *path, name, leaf = weight.name.split(".")
        if leaf != "weight" or name not in self.maps or "own" in weight.axes:
            return
        (outputs, inputs), (outer, inner) = weight.shape, weight.axes
        first, second = (".".join((*path, name, suffix)) for suffix in OF_PAIRS)
        rank = self.rank
        yield Weight(first, (rank, inputs), ("rank", inner), FanIn(), "adapter", "matrix")
        yield Weight(second, (outputs, rank), (outer, "rank"), ZEROS, "adapter", "matrix")

    def operations(self, operations: op.Operations) -> op.Operations:
        """The operations of a part; maps of the same states have their pairs side by side."""
        return tuple(operation for made in operations for operation in (made, *self._beside(made)))

    def _beside(self, made: op.Operation) -> Iterator[op.Operation]:
        many = len(self.maps & {*made.names}) if isinstance(made, op.Product) else 0
        if not isinstance(made, op.Product) or not many:
            return
        width = many * self.rank
        pair = replace(made, maps=many, adapts=True)
        if self.dropout:
            yield op.Dropout(made.rows, made.inner)
        yield replace(pair, columns=width, constant=made.of_weights)
        yield replace(pair, inner=width, keeps_rows=True, names=())
        yield op.Pointwise("add", made.rows * made.columns)

    def mark_frozen(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """The weights of an encoder, all marked as frozen but pairs and pooler."""
        return tuple(replace(w, frozen=w.part not in ("adapter", "pooler")) for w in weights)


def present_maps(stage: Any) -> list[str]:
    """The maps that layers have and that may have pairs, in order."""
    names, ffn = set[str](), feed_forward(stage.activation, stage.ffn)
    for layer in range(stage.layers):
        sizes = (stage.heads, 1 if isinstance(stage.ffn, Own) else stage.ffn)
        heads, inner = (size if isinstance(size, int) else size[layer] for size in sizes)
        widths = op.Widths(stage.hidden, heads, stage.head_dim, inner)
        weights = stage.attention.at(layer).weights("attention", widths, FanIn())
        weights = (*weights, *ffn.weights("ffn", widths, FanIn()))
        names.update(w.name.split(".")[1] for w in weights if "own" not in w.axes)
    return [name for maps in MAPS.values() for name in maps if name in names]


def _on_what_there_is(stage: Any) -> Way:
    if not (present := present_maps(stage)):
        return {"help": "adapt=none", "fix": None}
    part = next(part for part, maps in MAPS.items() if present[-1] in maps)
    return argument("adapt", stage.origins["adapt"], "on", part)


Adapter = Annotated[NoAdapter | Lora, BY_KIND]
"""The closed union of adapters."""
NO_ADAPTER = NoAdapter()
