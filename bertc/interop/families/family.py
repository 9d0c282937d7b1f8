"""A Hugging Face family: all that bertc knows of one layout of transformers, as one value."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from bertc.interop.families.config import HfConfig
from bertc.interop.families.obstacle import Obstacle
from bertc.ir.base import Node
from bertc.ir.learning import task
from bertc.ir.learning.objective import Mlm, Objective
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation
from bertc.ir.program.resolved import Resolved
from bertc.ir.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

Shape = tuple[int, ...]
AnswerKind = Literal["labels", "score", "choice", "tags", "span"]
Pooler = Literal["read", "perhaps", "refused", "unread"]


@dataclass(frozen=True)
class HfClass:
    """A class of transformers and the parts beyond the body that its folders hold.

    ``named`` are modules that it calls otherwise than the layout, and without a prefix.
    ``settings`` are those of its own in ``config.json``.
    """

    name: str
    parts: frozenset[str]
    named: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def saying(self, settings: Mapping[str, Any]) -> "HfClass":
        """This class with those settings in its configuration."""
        return replace(self, settings=settings)

    @property
    def bare(self) -> bool:
        """True if its keys stand without the layout's prefix."""
        return self.parts <= {"pooler"}


def hf_class(name: str, *parts: str) -> HfClass:
    """A class that holds those parts."""
    return HfClass(name, frozenset(parts))


@dataclass(frozen=True)
class TaskClass:
    """A class for a kind of answers, with one linear map for a head.

    ``head`` is that map. The pooler is the encoder's, or where ``own_pooler`` names it a part
    of the head. Keys of both stand without a prefix.
    """

    name: str
    kinds: tuple[AnswerKind, ...]
    head: str
    pooler: Pooler
    own_pooler: str = ""
    summary_type: Literal["first", "last"] = "first"

    def holding(self, title: str, pooled: bool) -> HfClass:
        """The class with the head of a task in its place."""
        named = {f"heads.{title}": self.head}
        reads = pooled and self.pooler in ("read", "perhaps")
        if reads and self.own_pooler:
            named["encoder.pooler"] = self.own_pooler
        parts = frozenset({title, "pooler"} if reads else {title})
        return HfClass(self.name, parts, named, self.summary(pooled))

    def summary(self, pooled: bool) -> Mapping[str, Any]:
        """The settings that say how the states of a row become one."""
        if self.pooler == "refused":
            return {
                "summary_type": "first",
                "summary_use_proj": True,
                "summary_proj_to_labels": True,
                "summary_activation": None,
            }
        if self.pooler == "perhaps":
            return {
                "summary_type": self.summary_type,
                "summary_use_proj": pooled,
                "summary_activation": "tanh" if pooled else "",
            }
        return {}


@dataclass(frozen=True)
class TaskHeads:
    """The classes of a family that hold a task's head.

    ``dropout`` is the setting for the dropout of what a head reads, ``default`` its value where the
    file has none, None: the encoder's. ``otherwise`` is the reason for the answers without a class,
    ``summary`` the defaults of the settings that make one state of a row.
    """

    classes: tuple[TaskClass, ...]
    dropout: str
    default: float | None = None
    otherwise: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)


class Tokens(Protocol):
    """A vocabulary as an export sees it: some ids, and how to save it."""

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        ...

    @property
    def cls(self) -> int | None:
        """Id of the token that stands for a whole row, if known."""
        ...

    @property
    def sep(self) -> int | None:
        """Id of the token that ends a segment, if known."""
        ...

    @property
    def bos(self) -> int | None:
        """Id of the token that its configuration calls the first, if it names one."""
        ...

    @property
    def eos(self) -> int | None:
        """Id of the token that its configuration calls the last, if it names one."""
        ...

    def save(self, folder: Path) -> object:
        """Write the tokenizer's files into a folder."""
        ...


@dataclass(frozen=True)
class Candidate:
    """A program that some family is to say, and the id that its vocabulary pads with.

    ``systems`` are the families that it came from or is tuned as.
    """

    resolved: Resolved
    pad: int
    systems: frozenset[str] = frozenset()

    @property
    def encoder(self) -> Encoder:
        """The network."""
        return self.resolved.encoder

    @property
    def tuned(self) -> bool:
        """True if a task is among its objectives."""
        return any(isinstance(term.objective, task.Task) for term in self.resolved.terms())

    @property
    def predicts(self) -> bool:
        """True if it has a masked-LM head."""
        return any(term.objective.masks for term in self.resolved.terms())

    @property
    def finds_replaced(self) -> bool:
        """True if it has a head that finds replaced tokens."""
        return any(term.objective.judges_guesses for term in self.resolved.terms())

    @property
    def shares(self) -> bool:
        """True if a layer uses the weights of another."""
        own = tuple(range(len(self.encoder.layers)))
        return (self.encoder.attention_owner, self.encoder.ffn_owner) != (own, own)


@dataclass(frozen=True)
class Reshape:
    """The way of tensors between bertc's table and a layout; by default they lie alike."""

    shape: Callable[[Encoder, str, Shape], Shape] = lambda encoder, name, shape: shape
    out: Callable[[Encoder, str, "Tensor"], "Tensor"] = lambda encoder, name, tensor: tensor
    back: Callable[[str, "Tensor", Shape], "Tensor"] = lambda name, tensor, shape: tensor


C = TypeVar("C", bound=HfConfig)


@dataclass(frozen=True)
class Family(Generic[C]):
    """One layout of transformers, for import and export both.

    A weight is called ``<module>.weight`` or ``<module>.bias`` on both sides, so ``names`` maps
    modules, and whole names where a weight is no module's. ``{n}`` is the layer, or the number
    of its weights where layers share them. Keys of the encoder lack the ``prefix`` (``bert``) that
    classes with a head put before them. Labels agree: 0 true, in order or original, 1 not.
    """

    model_type: str
    title: str
    config: type[C]
    prefix: str
    names: Mapping[str, str]
    copies: Mapping[str, str]
    """Tied tensors that a file may hold a second time, and the key they are copies of."""
    classes: tuple[HfClass, ...]
    """Classes by what they hold, the fullest first."""
    tasks: TaskHeads
    says: Mapping[type[Node], Collection[str]]
    """The encoder and the kinds of its parts, each with the fields that it can say."""
    claims: Callable[[Candidate], bool]
    """True for a program that this family, of those not asked before, comes closest to."""
    obstacle: Callable[[Candidate], Obstacle | None]
    """The setting of a claimed program that the layout cannot say, if there is one."""
    settings: Callable[[C], dict[str, Any]]
    """bertc's settings of the network that a configuration describes."""
    config_of: Callable[[Encoder, Tokens], dict[str, Any]]
    """The configuration of an encoder, after its class, model type and number of tokens."""
    recipe: task.Family
    """The system whose published recipes its tasks follow."""
    vocabulary: Callable[..., Vocabulary]
    """The kind of vocabulary that is new where a folder brings none."""
    untrained: Objective = field(default_factory=Mlm)
    """The objective of a folder without heads."""
    head_activation: Activation | None = None
    """The activation of its masked-LM head, where that is not the layers' own."""
    unread: frozenset[str] = frozenset()
    """Keys that files of tasks carry along, and no task reads."""
    unused: Callable[[Encoder], Mapping[str, Shape]] = lambda encoder: {}
    """Keys that its classes have, and an encoder has no use for."""
    reshape: Reshape = field(default_factory=Reshape)

    def class_for(self, parts: frozenset[str]) -> HfClass | None:
        """The fullest class that needs no part which is missing."""
        return next((each for each in self.classes if each.parts <= parts), None)


def weight_numbers(encoder: Encoder) -> dict[int, int]:
    """The layers that own weights, numbered in order: without sharing, each by its own number."""
    return {owner: number for number, owner in enumerate(sorted(set(encoder.attention_owner)))}
