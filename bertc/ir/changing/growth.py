"""Initial weights of a run, and growth to a deeper network.

A kind maps each layer of the new depth to the layer it is copied from; widths, embeddings and heads
are kept, but for wider ones by ``tile``. ``bertc.ir.weight_maps`` derives the map of tensors,
sharing included.
"""

from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.base.diagnostics import several
from bertc.ir.base import BY_KIND, Count, Node


class _Growth(Node):
    """Growth; ``moments``: reset the optimiser's moments, or copy them with the layers.

    Either way the count of updates restarts at 0, as in StackingBERT: ``--reset-optimizer``, and
    double.py ``--double-optimizer``, which keeps moments and sets every step to 0.
    """

    moments: Literal["reset", "carry"] = "reset"  # StackingBERT reproduce_bert.sh


class Stack(_Growth):
    """Copies of the whole stack on top until it is deep enough: layer l from layer l mod k."""

    kind: Literal["stack"] = "stack"

    def source(self, layer: int, before: int, after: int) -> int:
        """The layer of ``before`` that ``layer`` is copied from (StackingBERT double.py)."""
        return layer % before


class Interleave(_Growth):
    """Copies of each layer next to it, so that order is kept."""

    kind: Literal["interleave"] = "interleave"

    def source(self, layer: int, before: int, after: int) -> int:
        return layer * before // after


class Tile(_Growth):
    """Layers at the same relative depth, and widths too: a network begins a wider one.

    Each wider axis repeats the old one around its middle: entry j begins as entry
    (j - (N - n) // 2) mod n of n (ModernBERT-large from base, init_from_checkpoint
    tile_weights_from_middle).
    """

    kind: Literal["tile"] = "tile"

    def source(self, layer: int, before: int, after: int) -> int:
        return min(before - 1, round(layer * before / after))


class Identity(_Growth):
    """New layers on top whose output projections are zero, so that they add nothing at first.

    Their other weights have initial values. Exact with ``norm=pre`` only.
    """

    kind: Literal["identity"] = "identity"

    def source(self, layer: int, before: int, after: int) -> int | None:
        """The layer itself; None for a new one (StackingBERT identity.py)."""
        return layer if layer < before else None


class Turned(Node):
    """The same weights and moments, where a stage reads in another direction than that before."""

    kind: Literal["turned"] = "turned"

    moments: ClassVar[Literal["carry"]] = "carry"

    def source(self, layer: int, before: int, after: int) -> int:
        return layer


GrowthKind = Stack | Interleave | Tile | Identity
Growth = Annotated[GrowthKind, BY_KIND]
NetworkChange = Annotated[GrowthKind | Turned, BY_KIND]
"""Ways in which a stage's network comes from the one before."""


def find_split(growth: "Beginning", before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The first layer that would start from another layer than its owner; None if none would."""

    def begins_with(n: int) -> int | None:
        source = growth.source(n, len(before), len(after))
        return None if source is None else before[source]

    unlike = (n for n, owner in enumerate(after) if begins_with(n) != begins_with(owner))
    return next(unlike, None)


class Drawn(Node):
    """Random initial values, determined by the seed."""

    kind: Literal["random"] = "random"


OF_INIT = "that of init"
"""The source of a setting that is taken from the network of ``init``."""
TEACHER = "teacher"
"""The path that stands for the first teacher of the first stage."""


class SameTokens(Node):
    """Rows as they are: both networks read the same tokens."""

    kind: Literal["same"] = "same"


class Mean(Node):
    """Rows of equal tokens; of others the mean of the rows of the pieces that they were."""

    kind: Literal["mean"] = "mean"


class Redrawn(Node):
    """All rows drawn with the mean and deviation of the old ones."""

    kind: Literal["random"] = "random"


class Focus(Node):
    """Rows of equal tokens; others are means of those, weighted by sparsemax of similarities.

    Cosines are of vectors of tokens, made from ``data``, or of words in a file (FOCUS, Dobler and
    de Melo 2023, 3). Tokens without one are drawn.
    """

    kind: Literal["focus"] = "focus"
    vectors: str = ""
    positional = ("vectors",)


TokenRows = Annotated[SameTokens | Mean | Redrawn | Focus, BY_KIND]
"""Ways in which rows of the token tables of init become those of another vocabulary."""
_SAME = SameTokens()


class FromOther(Node):
    """Weights of another network; the optimiser starts anew unless ``moments`` are carried.

    ``path`` is an earlier run, an imported model or a Hugging Face folder, or ``teacher``.
    ``embeddings``: how its token tables become those of a vocabulary that is not its own.
    """

    path: Literal["teacher"] | Annotated[str, Field(min_length=1)]
    embeddings: Annotated[TokenRows, Field(exclude_if=_SAME.__eq__)] = _SAME
    positional: ClassVar[tuple[str, ...]] = ("path",)

    @property
    def same_tokens(self) -> bool:
        """True if the run reads the tokens of that network."""
        return self.embeddings == _SAME


class FromRun(FromOther):
    """All weights of the encoder, which must match by name, sharing and shape.

    Pooler and heads are taken if both networks have them. ``step``: of the checkpoint after that
    step, 0: of the newest. ``moments=carry`` goes on with the optimiser and in the text too, as a
    decay does that ends a stable run; ``updates`` and ``rows`` are what the run there had done.
    """

    kind: Literal["run"] = "run"
    step: Annotated[Count, Field(exclude_if=not_)] = 0
    moments: Annotated[Literal["reset", "carry"], Field(exclude_if="reset".__eq__)] = "reset"
    updates: Annotated[Count, Field(exclude_if=not_)] = 0
    rows: Annotated[Count, Field(exclude_if=not_)] = 0
    bare_string = ("path",)
    looked_up = ("updates", "rows")


ChosenLayers = (
    Literal["uniform", "first", "top"]
    | Annotated[tuple[Annotated[int, Field(ge=0, le=999)], ...], Field(min_length=1)]
)
"""The layers (of N) that layers 0 to M - 1 begin as, counted from 0 too.

``uniform``: the last one of each N/M; ``first``: the M lowest; ``top``: the M highest.
"""


class FromLayers(FromOther):
    """Some layers of a deeper network, with its embeddings, pooler and heads (DistilBERT 3).

    What else it has is left out. ``depth`` is the number of its layers.
    """

    kind: Literal["layers"] = "layers"
    layers: ChosenLayers
    depth: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("path", "layers")
    looked_up = ("depth",)

    def source(self, layer: int, before: int, after: int) -> int:
        match self.layers:
            case "uniform":
                return (layer + 1) * before // after - 1
            case "first":
                return layer
            case "top":
                return layer + before - after
            case written:
                return written[layer]

    def misfit(self, before: int, after: int) -> str:
        """The reason why layers of ``before``, 0: unknown, are not ``after`` layers; or ""."""
        if not isinstance(self.layers, str):
            if len(self.layers) != after:
                return (
                    f"init names {several(len(self.layers), 'layer')}, and this network has {after}"
                )
            if before and max(self.layers) >= before:
                return f"init names layer {max(self.layers)} of {before}, counted from 0"
        elif before and after > before:
            return f"there are {before} layers, and this network has {after}"
        elif self.layers == "uniform" and before % after:
            return f"{before} layers are no multiple of the {after} of this network"
        return ""

    def instead(self, before: int, after: int) -> str:
        """Layers that do fit, as far apart as they can be; empty if there are too few."""
        if after > before:
            return ""
        apart = (round((layer + 1) * before / after) - 1 for layer in range(after))
        return f"[{', '.join(map(str, apart))}]"


class FromVectors(Node):
    """Rows of the token table from a file of word vectors, in the text format of GloVe or word2vec.

    A token has the vector of the word that it is, else of its small letters; other tokens, and all
    other weights, have random initial values.
    """

    kind: Literal["vectors"] = "vectors"
    path: Annotated[str, Field(min_length=1)]
    positional = ("path",)


Init = Annotated[Drawn | FromRun | FromLayers | FromVectors, BY_KIND]


def vector_file(init: Init) -> str:
    """The file of word vectors that a run begins with; '' for none."""
    match init:
        case FromVectors(path=name) | FromOther(embeddings=Focus(vectors=name)):
            return name
        case _:
            return ""


Beginning = GrowthKind | Turned | FromLayers
"""Ways for a network to begin with the layers of another."""
