"""Tasks that compare texts: vectors of texts alike near each other."""

from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import Count, Probability
from bertc.ir.learning.answer import Metric, Pooling, Vector
from bertc.ir.learning.own_task import OwnTask
from bertc.ir.learning.task import Name
from bertc.ir.network.body import Body
from bertc.ir.terms.node import RowShape


class Embed(OwnTask):
    """A vector for each text, of texts alike near each other.

    ``positive`` names the column of a text that is like ``text``; the other texts of the batch are
    its negatives, and that of ``negative``. The loss is their cross entropy (InfoNCE) of cosines
    over ``temperature``; with ``both`` the mean with that of the positives among the texts. Without
    ``positive`` a text is read twice with other dropout (SimCSE); so are the lines of a .txt file.
    ``score`` is a number, higher for pairs more alike, of which the order is learned (CoSENT).

    ``sts`` is a file of STS-B in GLUE's columns, which takes the place of ``dev``. ``mlp``: in
    training a dense layer with tanh follows the pooled states (SimCSE, --mlp_only_train).

    ``prompt`` precedes each text, and a text has at most ``longest`` tokens, 0: as many as a row.
    ``normalise``: its vectors have length 1. An ``init`` with ways of its own gives these three and
    ``pooling``, where they are not written.
    """

    kind: Literal["embed"] = "embed"
    name: Name = "embed"
    text: str = "text"
    positive: str = ""
    negative: str = ""
    score: str = ""
    sts: str = ""
    pooling: Pooling = "mean"
    normalise: Annotated[bool, Field(exclude_if=not_)] = False
    prompt: Annotated[str, Field(exclude_if=not_)] = ""
    longest: Annotated[Count, Field(exclude_if=not_)] = 0
    mlp: bool = False
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.05  # SimCSE --temp; 1 / 20 in SBERT's
    both: bool = False
    dropout: Probability = 0.0
    compares_examples = True

    @model_validator(mode="after")
    def _columns(self) -> Self:
        other = next((name for name in ("negative", "score") if getattr(self, name)), "")
        if other and not self.positive:
            raise ValueError(f"{other} needs positive, the other text of a pair", "positive=...")
        if self.negative and self.score:
            raise ValueError("pairs with a score have no negatives")
        if self.sts and self.dev:
            raise ValueError("sts takes the place of dev")
        return self

    @property
    def answer(self) -> Vector:
        texts = 3 if self.negative else 2
        scored = bool(self.score)
        return Vector(texts=texts, pooling=self.pooling, mlp=self.mlp, scored=scored)

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "positive")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Correlations of cosines with scores, else how often the positive is the most alike."""
        return ("spearman", "pearson") if self.score or self.sts else ("accuracy",)

    def outputs(self, rows: RowShape) -> int | None:
        return 1 if self.pooling == "cls" else None

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        states = examples * rows.choices * rows.seq * encoder.hidden
        pooled = () if self.pooling == "cls" else (op.Pointwise("add", states),)
        return (*pooled, *super().operations(encoder, rows, examples))
