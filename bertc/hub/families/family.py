"""A Hugging Face family: all facts about one layout of transformers; obstacles to an export."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bertc.hub.families.config import HfConfig
from bertc.ir.base import once
from bertc.ir.learning import task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation
from bertc.ir.network.head import PoolerKind
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.node import System
from bertc.ir.terms.vector_heads import SparseHead
from bertc.ir.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Obstacle:
    """A setting that no layout can represent, why, and perhaps one ``instead`` that one has."""

    setting: str
    why: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.setting} stands in the way: {self.why}"

    @property
    def way_out(self) -> str:
        """A remedy for a run that is trained already."""
        loading = "bertc.load reads the run's model folder"
        return f"in a new run: {self.instead}; {loading}" if self.instead else loading


def first_of(obstacles: Iterable[Obstacle]) -> Obstacle | None:
    """The first of several obstacles, with a remedy that removes all of them."""
    several = list(obstacles)
    if not several:
        return None
    values = {obstacle.instead.partition("=")[0]: obstacle.instead for obstacle in several}
    return replace(several[0], instead="" if "" in values else " ".join(values.values()))


Shape = tuple[int, ...]
AnswerKind = Literal["labels", "several", "score", "choice", "tags", "span"]
Pooler = Literal["read", "perhaps", "refused", "unread"]


@dataclass(frozen=True)
class HfClass:
    """A class of transformers, the parts that it holds, its own names of modules and settings.

    ``prefix`` is that of the encoder where it is not the family's.
    """

    name: str
    parts: frozenset[str]
    named: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""


def hf_class(name: str, *parts: str) -> HfClass:
    """A class that holds these parts."""
    return HfClass(name, frozenset(parts))


ANSWERS: Mapping[str, tuple[AnswerKind, ...]] = {
    "ForSequenceClassification": ("labels", "several", "score"), "ForMultipleChoice": ("choice",),
    "ForTokenClassification": ("tags",), "ForQuestionAnswering": ("span",),
}  # fmt: skip
"""The answers of a class for tasks, by a part of its name."""


@dataclass(frozen=True)
class TaskClass:
    """A class for tasks, with one linear layer as head.

    ``head`` is the name of that layer. The pooler is the encoder's, or part of the head under the
    name ``own_pooler``, and its norm, if it has one, under ``own_norm``. All have keys without
    prefix. ``dropout`` is the setting of the dropout before the head where it is not that of the
    family; if absent, it is the encoder's. ``always`` are settings of the pooler as the class has
    it, whatever a file says; ``needs`` those that a file of a task of bertc has.
    """

    name: str
    head: str
    pooler: Pooler
    own_pooler: str = ""
    summary_type: Literal["first", "last"] = "first"
    dropout: str = ""
    own_norm: str = ""
    always: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[AnswerKind, ...]:
        """The kinds of answers that it gives."""
        return next(kinds for part, kinds in ANSWERS.items() if part in self.name)

    def holding(self, title: str, pooled: bool) -> HfClass:
        """The class with the names of a task's head."""
        named = {f"heads.{title}": self.head}
        reads = pooled and self.pooler in ("read", "perhaps")
        if reads and self.own_pooler:
            named |= {"encoder.pooler": self.own_pooler, "encoder.pooler.norm": self.own_norm}
        parts = frozenset({title, "pooler"} if reads else {title})
        return HfClass(self.name, parts, named, self.summary(pooled))

    def summary(self, pooled: bool) -> Mapping[str, Any]:
        """Settings of the pooling that reduces a row to one state."""
        if self.pooler == "refused":
            always = {"summary_use_proj": True, "summary_proj_to_labels": True}
            return {"summary_type": "first", **always, "summary_activation": None}
        if self.pooler == "perhaps":
            plain = {} if pooled else {"summary_activation": ""}  # else the pooler's
            return {"summary_type": self.summary_type, "summary_use_proj": pooled, **plain}
        return self.needs


@dataclass(frozen=True)
class TaskHeads:
    """Task classes of a family, and the dropout of their heads.

    ``dropout`` is the setting of the dropout before a head, ``default`` its value if absent; None
    means the encoder's. ``otherwise`` is the reason why some answers have no class, ``summary`` the
    defaults of the pooling settings.
    """

    classes: tuple[TaskClass, ...]
    dropout: str = "classifier_dropout"
    default: float | None = None
    otherwise: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)


def transformer(resolved: Resolved) -> Encoder:
    """The main network of a program that some family says, or that came from one."""
    encoder = resolved.encoder
    assert isinstance(encoder, Encoder), "no family has another body"
    return encoder


def poolers(setting: str, kinds: Mapping[PoolerKind, str]) -> Mapping[PoolerKind, Any]:
    """Kinds of a pooler that one setting says, the usual one first."""
    return {kind: {setting: value} for kind, value in kinds.items()}


class Candidate(NamedTuple):
    """A program to export, its padding id, and the families that it was imported or tuned from."""

    resolved: Resolved
    pad: int
    systems: frozenset[str] = frozenset()

    @property
    def encoder(self) -> Encoder:
        """The encoder of the main network."""
        return transformer(self.resolved)

    @property
    def turns(self) -> bool:
        """True if positions turn its queries and keys."""
        return self.encoder.positions.kind == "rotary"

    @property
    def tuned(self) -> bool:
        """True if one of its objectives is a task."""
        return any(isinstance(term.objective, task.Task) for term in self.resolved.terms())

    @property
    def predicts(self) -> bool:
        """True if it has a masked-LM head."""
        terms = (term.objective for term in self.resolved.terms())
        return any(term.masks or isinstance(term.head_node, SparseHead) for term in terms)


@dataclass(frozen=True)
class Reshape:
    """Conversion of tensors to a layout and back; ``joined`` orders rows that share a key."""

    shape: Callable[[Encoder, str, Shape], Shape] = lambda encoder, name, shape: shape
    out: Callable[[Encoder, str, "Tensor"], "Tensor"] = lambda encoder, name, tensor: tensor
    back: Callable[[str, "Tensor", Shape], "Tensor"] = lambda name, tensor, shape: tensor
    joined: Callable[[Encoder, str, "Tensor"], "Tensor"] = lambda encoder, key, tensor: tensor


@dataclass(frozen=True)
class Family:
    """One layout of transformers, for import and export.

    Weights are called ``<module>.weight`` or ``<module>.bias`` on both sides, so ``names`` maps
    modules, or whole names of weights outside modules. ``{n}`` is the layer, or if layers are
    shared the index of the owner. Keys of the encoder lack the ``prefix`` (``bert``) that classes
    with a head add. Labels agree: 0 is true, in order or original; 1 is not.
    """

    title: str
    config: type[HfConfig]
    prefix: str
    names: Mapping[str, str]
    copies: Mapping[str, str]
    """Tied tensors that a file may store again, mapped to the key of the original."""
    classes: tuple[HfClass, ...]
    """Classes by the parts they hold, those with most parts first, the encoder alone last."""
    tasks: TaskHeads
    claims: Callable[[Candidate], bool]
    """True for a program that this family fits best of those not yet tried."""
    recipe: System
    """The system whose published recipes its tasks follow."""
    vocabulary: Callable[..., Vocabulary]
    """The kind of vocabulary created if a folder has none."""
    labels: Mapping[str, str] = field(default_factory=lambda: {"mlm": "labels"})
    """The argument of ``forward`` for the labels of each head; for a single head ``labels``."""
    head_activation: Activation | None = None
    """The activation of its masked-LM head, if it differs from the layers'."""
    poolers: Mapping[PoolerKind, Mapping[str, Any]] = field(default_factory=lambda: {True: {}})
    """The kinds of its pooler, each with the settings that say it, the usual one first, if any."""
    older: Mapping[str, str] = field(default_factory=dict)
    """Beginnings of keys that some files have, and those of the names above."""
    unread: frozenset[str] = frozenset()
    """Keys of the encoder that files may have though their network does not read them."""
    unused: Callable[[Encoder], Mapping[str, list[Any]]] = lambda encoder: {}
    """Keys that its classes have and bertc's encoder does not use, with numbers for them."""
    reshape: Reshape = field(default_factory=Reshape)
    obstacle: Callable[[Candidate], Obstacle | None] = lambda candidate: None
    """A reason beside the settings why the layout cannot hold a claimed program."""

    @property
    def model_type(self) -> str:
        """Its name in configurations."""
        return str(self.config.model_fields["model_type"].default)

    @property
    def usual_pooler(self) -> str:
        """Its usual kind of pooler, as a value of the setting."""
        return str(next(iter(self.poolers), False)).lower()

    def class_for(self, parts: frozenset[str]) -> HfClass | None:
        """The largest class all of whose parts are present."""
        return next((known for known in self.classes if known.parts <= parts), None)


@once
def weight_numbers(encoder: Encoder) -> dict[int, int]:
    """Index of each layer that owns weights; without sharing the layer's own number."""
    return {owner: number for number, owner in enumerate(sorted(set(encoder.attention_owner)))}
