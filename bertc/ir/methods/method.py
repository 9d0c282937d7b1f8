"""Methods of training as facts: other rooms walk these, so that none names a method.

A method acts over the steps of a stage: an average of weights, pruning, patience, ... It is written
as a setting, checked by its own rules, and says here, without torch, what it has and costs; its
class in ``run.methods`` acts between the steps.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

from bertc.ir.base import Node, Tokens
from bertc.ir.rules import Rules


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
    of_tasks: ClassVar[bool] = False
    """True if stages of text have it as their run's setting, without effect."""
    why_final: ClassVar[str] = ""
    """The reason why a run cannot become longer than it was made; "" if it can."""

    holds: ClassVar[Held | None] = None
    """Its tensors, one like each weight, if it has some."""
    removes: ClassVar[bool] = False
    """True if a part of the network has only weights of zero from then on, and goes at the end."""

    @property
    def text(self) -> str:
        """Its setting in messages, without arguments."""
        return self.setting

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

    @property
    def freezes_all(self) -> bool:
        """True if nothing learns of the main network but a pooler; it is read without dropout."""
        return False

    def frozen_layers(self, depth: int) -> int | None:
        """The number of lowest layers that it leaves as they are, 0: embeddings; None: no such."""
        return None

    def keeps(self, weight: str, depth: int) -> bool:
        """True if it leaves this weight of the main network as it is."""
        return False

    def begun(self, step: int) -> bool:
        """True if it has its tensors on the devices after run step ``step``."""
        return False

    def share_at(self, step: int) -> float | None:
        """The extent to which it acts after run step ``step``, equal in a longer run."""
        return None

    @property
    def not_exported(self) -> "tuple[str, Node] | None":
        """The reason why no layout of others holds its network, and the value to write instead."""
        return None
