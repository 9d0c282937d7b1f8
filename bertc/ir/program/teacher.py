"""Teachers: networks that are there already, and that nothing trains any more."""

from dataclasses import replace
from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node
from bertc.ir.learning.objective import Term
from bertc.ir.network.body import Body
from bertc.ir.program.network import Network
from bertc.ir.vocabulary import Vocabulary


class Shape(Node):
    """The body of a teacher, the terms that it has heads for, and the vocabulary that it reads."""

    body: Body
    terms: tuple[Term, ...]
    vocabulary: Vocabulary


class Asked(Node):
    """A network and how it is asked: in ``precision``, auto: the run's, ``microbatch`` at once."""

    precision: Annotated[Literal["auto", "fp32", "bf16"], Field(exclude_if="auto".__eq__)] = "auto"
    microbatch: Annotated[int, Field(ge=0, le=2**20, exclude_if=not_)] = 0


class FromFolder(Asked):
    """The weights of a run, an imported model or a Hugging Face folder; ``shape`` is read there."""

    kind: Literal["run"] = "run"
    path: Annotated[str, Field(min_length=1)]
    shape: Shape | None = None
    positional = ("path",)
    bare_string = ("path",)
    looked_up = ("shape",)


class FromSpec(Asked):
    """The shape of a spec without weights, enough for estimates."""

    kind: Literal["spec"] = "spec"
    spec: Annotated[str, Field(min_length=1)]
    shape: Shape | None = None
    positional = ("spec",)
    looked_up = ("shape",)


class NoTeacher(Node):
    """No teacher."""

    kind: Literal["none"] = "none"


class Teacher(Node):
    """One of the teachers; what several say is averaged by their weights."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    source: Annotated[FromFolder | FromSpec | NoTeacher, Field(discriminator="kind")]

    @property
    def shape(self) -> Shape | None:
        """The shape of its network; None without a teacher or before its files were read."""
        return None if isinstance(self.source, NoTeacher) else self.source.shape

    def network(self, name: str, body: Body) -> Network:
        """The frozen network of this name and body."""
        network = Network(name, body, "frozen", share=self.weight)
        if isinstance(self.source, NoTeacher):
            return network
        return replace(network, precision=self.source.precision, at_once=self.source.microbatch)


NOBODY = (Teacher(source=NoTeacher()),)
"""The teachers of a stage without any."""
