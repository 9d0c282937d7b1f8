"""Teachers: networks that are there already, and that nothing trains any more."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node
from bertc.ir.learning.objective import Term
from bertc.ir.network.body import Body
from bertc.ir.vocabulary import Vocabulary


class Shape(Node):
    """The body of a teacher, the terms that it has heads for, and the vocabulary that it reads."""

    body: Body
    terms: tuple[Term, ...]
    vocabulary: Vocabulary


class FromFolder(Node):
    """The weights of a run, an imported model or a Hugging Face folder; ``shape`` is read there."""

    kind: Literal["run"] = "run"
    path: Annotated[str, Field(min_length=1)]
    shape: Shape | None = None
    positional = ("path",)
    bare_string = ("path",)
    looked_up = ("shape",)


class FromSpec(Node):
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
    source: Annotated[FromFolder | FromSpec | NoTeacher, BY_KIND]

    @property
    def shape(self) -> Shape | None:
        """The shape of its network; None without a teacher or before its files were read."""
        return None if isinstance(self.source, NoTeacher) else self.source.shape


NOBODY = (Teacher(source=NoTeacher()),)
"""The teachers of a stage without any."""
