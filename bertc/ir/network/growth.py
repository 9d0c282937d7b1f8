"""Initial weights of a run, and growth to a deeper network.

A kind maps each layer of the new depth to the layer it is copied from; widths, embeddings and heads
are kept. ``bertc.compress`` derives the map of tensors, sharing included.
"""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node


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
        """The layer of ``before`` at the same relative depth."""
        return layer * before // after


class Identity(_Growth):
    """New layers on top whose output projections are zero, so that they add nothing at first.

    Their other weights have initial values. Exact with ``norm=pre`` only.
    """

    kind: Literal["identity"] = "identity"

    def source(self, layer: int, before: int, after: int) -> int | None:
        """The layer itself; None for a new one (StackingBERT identity.py)."""
        return layer if layer < before else None


class FromGenerator(_Growth):
    """The encoder starts from its generator, of the same size (ELECTRA 3.2, two-stage)."""

    kind: Literal["generator"] = "generator"

    def source(self, layer: int, before: int, after: int) -> int:
        """The same layer of the generator."""
        return layer


Growth = Annotated[Stack | Interleave | Identity | FromGenerator, Field(discriminator="kind")]


def parted(growth: Growth, before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The first layer that would start from another layer than its owner does; None if none would.

    ``before`` and ``after`` are the owner maps of a part in the old and the new network.
    """

    def begins_with(layer: int) -> int | None:
        source = growth.source(layer, len(before), len(after))
        return None if source is None else before[source]

    unlike = (at for at, owner in enumerate(after) if begins_with(at) != begins_with(owner))
    return next(unlike, None)


class Drawn(Node):
    """Random initial values, determined by the seed."""

    kind: Literal["random"] = "random"


class FromRun(Node):
    """The weights of an earlier run, of an imported model or of a Hugging Face folder.

    All weights of the encoder must match by name, sharing and shape; pooler and heads are taken if
    both have them. The optimiser starts anew.
    """

    kind: Literal["run"] = "run"
    path: Annotated[str, Field(min_length=1)]
    positional = ("path",)
    bare_string = ("path",)


class FromVectors(Node):
    """Rows of the token table from a file of word vectors, in the text format of GloVe or word2vec.

    A token has the vector of the word that it is, else of its small letters; other tokens, and all
    other weights, have random initial values.
    """

    kind: Literal["vectors"] = "vectors"
    path: Annotated[str, Field(min_length=1)]
    positional = ("path",)


class FromTokens(Node):
    """Rows of a bag's token table from what another network makes of each token alone (model2vec).

    The mean of its last states for [CLS] token [SEP], mapped to the width of the table by principal
    components, times log(1 + n) for the n-th token. ``path`` is a run, an imported model or a
    Hugging Face folder, whose vocabulary the bag reads with.
    """

    kind: Literal["bag-of"] = "bag-of"
    path: Annotated[str, Field(min_length=1)]
    positional = ("path",)


Init = Annotated[Drawn | FromRun | FromVectors | FromTokens, Field(discriminator="kind")]
