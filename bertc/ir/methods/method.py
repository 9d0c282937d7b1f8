"""Methods of training as facts: other rooms walk these, so that none names a method.

A method acts over the steps of a stage: pruning, patience, a clock, ... It is written as a setting,
checked by its own rules, and says here, without torch, what it has and costs; its class in
``run.methods`` acts between the steps.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple, Self

from bertc.ir.base import Node, Tokens
from bertc.ir.fixes import Rules
from bertc.ir.network.body_node import is_below

Pieces = tuple[tuple[int, int], ...]
"""(rows of a batch, number of steps), one after the other."""


class Frozen(NamedTuple):
    """Weights of a stage's main network that it leaves as they are, by default none.

    They are those of the ``layers`` lowest layers and the embeddings below, or the table of
    ``positions``. Of the ``whole`` nothing learns but a pooler, and it is read without dropout.
    """

    layers: int | None = None
    positions: bool = False
    whole: bool = False

    def includes(self, weight: str) -> bool:
        """True for a weight that stays."""
        if self.whole:
            return not weight.startswith("pooler.")
        if self.layers is not None:
            return is_below(weight, self.layers)
        return self.positions and weight.startswith("embeddings.position.")


class Held(NamedTuple):
    """Tensors that a method has, one like each weight, and the file of checkpoints with them.

    Processes share out those ``on_devices`` as they do weights; of others the first has all.
    ``evaluated`` says of an evaluation that they are evaluated, exported and handed on instead of
    the weights; "" if they are not. ``moved`` are the numbers of each that a step reads and writes.
    """

    file: str
    on_devices: bool = True
    evaluated: str = ""
    moved: int = 0


class Method(Node):
    """A method that a stage has, by default one that changes nothing."""

    setting: ClassVar[str]
    """The setting that it is written as."""
    rules: ClassVar[Rules] = Rules()
    """Mistakes of settings that it does not go with."""
    reads: ClassVar[Literal["text", "tasks", "both"]] = "both"
    """The stages that it has an effect in; others may have it as their run's setting."""
    why_final: ClassVar[str] = ""
    """The reason why a run cannot become longer than it was made; "" if it can."""

    holds: ClassVar[Held | None] = None
    """Its tensors, one like each weight, if it has some."""
    restores: ClassVar[bool] = False
    """True if a stage ends with the weights of its best evaluation."""
    removes: ClassVar[tuple[str, ...]] = ()
    """Settings of parts that lose units: their weights are zero from then on, and go at the end."""

    @property
    def text(self) -> str:
        """Its setting in messages, without arguments."""
        kind = getattr(self, "kind", "")
        return f"{self.setting}={kind}" if kind else self.setting

    @property
    def in_tokens(self) -> bool:
        """True if it has a length in tokens."""
        return False

    def in_steps(self, count: Callable[[Tokens], int]) -> Self:
        """The same with its lengths in steps."""
        return self

    def of_stage(self, first: int, last: int) -> Self:
        """The same in a stage from run step ``first`` to ``last``."""
        return self

    def over_steps(self, batch: int, seq: int, steps: int, tokens: float | None) -> Self:
        """The same over a number of steps of a stage of ``steps``, or of ``tokens`` if not None."""
        return self

    def batches(self, batch: int, steps: int) -> Pieces:
        """The batches of a stage of these steps, each size a stage; () if it does not cut any."""
        return ()

    def terms_between(self, terms: Any, begin: float, end: float) -> Any:
        """The objective in the steps of which shares from ``begin`` to ``end`` are over."""
        return terms

    def freezes(self, depth: int) -> Frozen:
        """The part that it leaves as it is of a network of ``depth`` layers."""
        return Frozen()

    def has_begun(self, step: int) -> bool:
        """True if it has its tensors on the devices after run step ``step``."""
        return False

    def extent(self, done: int, steps: int) -> float:
        """The number by which it acts after ``done`` of a stage's steps: equal in a longer run."""
        return 0.0

    @property
    def not_exported(self) -> "tuple[str, Node] | None":
        """The reason why no layout of others holds its network, and the value to write instead."""
        return None


def batches_of(methods: Iterable[Method], batch: int, steps: int) -> Pieces:
    """The batches of a stage of these steps with these methods."""
    cut = (method.batches(batch, steps) for method in methods)
    return next(filter(None, cut), ((batch, steps),))


def restoring(stage: Any) -> str:
    """The setting of the method that ends a stage with its best weights; "" if none does."""
    return next((method.setting for method in stage.methods if method.restores), "")


def removing(stage: Any) -> str:
    """The setting of the method that removes a part of a stage's network; "" if none does."""
    return next((method.setting for method in stage.methods if method.removes), "")
