"""Closed unions of objectives, the terms of a loss, and the teachers that some learn from."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field

from bertc.ir.base import BY_KIND, Node
from bertc.ir.learning.custom_task import TaskKind
from bertc.ir.network.body import Body
from bertc.ir.terms.kd import KdLogits
from bertc.ir.terms.kd_layers import KdAttention, KdCls, KdEmbeddings, KdHidden, KdRelations
from bertc.ir.terms.masked import Masked, Mlm, Mntp, Tlm
from bertc.ir.terms.masking import KINDS
from bertc.ir.terms.own import OwnTerm
from bertc.ir.terms.pairs import Nsp, Sop
from bertc.ir.terms.plm import Clm, Plm
from bertc.ir.terms.rtd import Restore, Rtd
from bertc.ir.terms.sbo import Sbo
from bertc.ir.vocabulary import Vocabulary

Pretraining = Mlm | Mntp | Tlm | Clm | Plm | Sbo | Nsp | Sop | Rtd | Restore
"""Objectives learned from text alone."""
PRETRAINING: Mapping[str, type[Pretraining]] = {
    str(objective.model_fields["kind"].default): objective for objective in get_args(Pretraining)
}
"""The classes of these objectives, by kind."""
MASKED_LM = frozenset(name for name, kind in PRETRAINING.items() if issubclass(kind, Masked))
"""The kinds that mask tokens and predict them."""
Distillation = KdLogits | KdHidden | KdEmbeddings | KdCls | KdAttention | KdRelations
"""Objectives learned from teachers."""
Objective = Annotated[Pretraining | Distillation | OwnTerm | TaskKind, BY_KIND]
"""The closed union of objectives: pretraining and tasks."""


class Term(Node):
    """One term of the loss and its factor; 0 where another one trains its head."""

    weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    objective: Objective

    @property
    def name(self) -> str:
        return self.objective.title


def balance_directions(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same where rows are read in two directions: one head, and weights that are shares."""
    if len({term.objective.order == "forward" for term in terms}) < 2:
        return terms
    total = sum(term.weight for term in terms) or 1
    return tuple(
        Term(
            weight=term.weight / total,
            objective=Clm(head="mlm") if isinstance(term.objective, Clm) else term.objective,
        )
        for term in terms
    )


def loss_title(name: str) -> str:
    """The name of a loss in words: of masked language modelling with the positions it is of."""
    first, _, kind = name.rpartition("_")
    if first in MASKED_LM and kind in KINDS:
        return f"{first}, {kind}"
    return f"{name}, all predicted" if name in MASKED_LM else name


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
