"""What a run begins from, and how a network that is deeper than the one before begins from it.

A kind says for each layer of the new depth which layer of the old one it is a copy of; widths,
embeddings and heads stay. Which tensors that are, sharing included, is for ``bertc.compress``.
"""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node


class _Growth(Node):
    """``moments``: the optimiser begins anew, or layers bring a copy of their moments along.

    Either way its count of updates begins at 0, as StackingBERT's does: ``--reset-optimizer``, and
    double.py ``--double-optimizer``, which keeps moments and sets every step to 0.
    """

    moments: Literal["reset", "carry"] = "reset"  # StackingBERT reproduce_bert.sh


class Stack(_Growth):
    """A copy of the whole stack on top, and again until it is deep enough: l is l mod k."""

    kind: Literal["stack"] = "stack"

    def source(self, layer: int, before: int, after: int) -> int:
        """The layer of ``before`` that a layer of ``after`` begins as (StackingBERT double.py)."""
        return layer % before


class Interleave(_Growth):
    """Each layer followed by its copies, so that neighbours stay neighbours."""

    kind: Literal["interleave"] = "interleave"

    def source(self, layer: int, before: int, after: int) -> int:
        """The layer of ``before`` in the same place between the first and the last."""
        return layer * before // after


class Identity(_Growth):
    """New layers on top that at first add nothing: their output maps are zero.

    All else in them has its initial value. Exact with ``norm=pre`` alone.
    """

    kind: Literal["identity"] = "identity"

    def source(self, layer: int, before: int, after: int) -> int | None:
        """The layer itself, None for a new one (StackingBERT identity.py)."""
        return layer if layer < before else None


class FromGenerator(_Growth):
    """The encoder begins as its generator, which is of the same size (ELECTRA 3.2, two-stage)."""

    kind: Literal["generator"] = "generator"

    def source(self, layer: int, before: int, after: int) -> int:
        """The layer itself, of the generator."""
        return layer


Growth = Annotated[Stack | Interleave | Identity | FromGenerator, Field(discriminator="kind")]


def parted(growth: Growth, before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The first layer that shares weights which begin as another layer's than its own would.

    ``before`` and ``after`` name the owners of a part in the old and in the new network. None: each
    layer begins with the weights of the layer that it is a copy of.
    """

    def begins_with(layer: int) -> int | None:
        source = growth.source(layer, len(before), len(after))
        return None if source is None else before[source]

    unlike = (at for at, owner in enumerate(after) if begins_with(at) != begins_with(owner))
    return next(unlike, None)


class Drawn(Node):
    """Initial values alone, which the seed decides."""

    kind: Literal["random"] = "random"


class FromRun(Node):
    """The weights of an earlier run, of an imported model or of a Hugging Face folder.

    The encoder's all have to fit, by name, sharing and shape; the pooler and heads are taken where
    both have them. The optimiser begins anew.
    """

    kind: Literal["run"] = "run"
    path: Annotated[str, Field(min_length=1)]
    positional = ("path",)
    bare_string = ("path",)


Init = Annotated[Drawn | FromRun, Field(discriminator="kind")]
