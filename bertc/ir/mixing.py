"""The mixing of languages."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node


class Turns(Node):
    """Mixing of languages, and of translations with monolingual text."""

    translations: Annotated[float, Field(ge=0, lt=1)] = 0.0
    both_orders: bool = False
    positional = ("translations",)


class MixedRows(Turns):
    """Rows of any language in a batch.

    ``translations`` is the fraction of rows that are translation pairs, if there is monolingual
    text too; 0: in proportion to the data. ``both_orders``: each pair is read in both orders,
    equally often.
    """

    kind: Literal["rows"] = "rows"


class MixedBatches(Turns):
    """Batches of one language, or of one translation direction (XLM trainer.py, mlm_step)."""

    kind: Literal["batches"] = "batches"


Mixing = Annotated[MixedRows | MixedBatches, BY_KIND]
