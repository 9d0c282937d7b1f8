"""Lengths in time, epochs and words, and those that give a grid's points the same budget."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import Node

Most = Annotated[float, Field(gt=0, le=1e40)]


class Flops(Node):
    """A number of FLOPs of training, in the exact convention: ``1e18 flops``."""

    flops: Most
    bare_number = ("flops",)
    number_unit = "flops"


class Hours(Node):
    """A time: ``2h``, ``90min``."""

    hours: Annotated[float, Field(gt=0, le=10**6)]
    bare_number = ("hours",)
    number_unit = "h"


class Words(Node):
    """A length in words, as white space separates them, which a pass turns into steps."""

    words: Annotated[int, Field(ge=1, le=10**18)]
    bare_number = ("words",)
    number_unit = "words"


class Epochs(Node):
    """A length in passes over the text of a stage, which a pass turns into steps."""

    epochs: Annotated[float, Field(gt=0, le=10**6)]
    bare_number = ("epochs",)
    number_unit = "epochs"


class Equal(Node):
    """The most steps that a budget has room for; a compilation turns it into their number.

    ``budget`` is what all points of a grid have alike: FLOPs or time as much as the first one
    takes, or as stated. ``steps`` are those of the first point; 0: as if it were not written.
    ``device`` is that on which time is estimated.
    """

    kind: Literal["equal"] = "equal"
    budget: Literal["flops", "time"] | Flops | Hours
    steps: Annotated[int, Field(ge=0, le=10**12)] = 0
    device: Annotated[str, Field(min_length=1)] = "h200"
    positional: ClassVar[tuple[str, ...]] = ("budget",)
