"""The base of term nodes: all facts about a term except its tensors.

The tensor side of a term is a class in ``learn/objectives/``, joined to the node by
``learn.objectives.terms.tensors_of``. Other code asks the node and names no kind of objective; only
defaults and Hugging Face families list some.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, NamedTuple, Self

from bertc.ir import operation as op
from bertc.ir.base import Node, Weight
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import Wanted
from bertc.ir.terms.heads import HeadNode, VocabularyHead
from bertc.ir.terms.masking import Masks

Baseline = Literal["none", "token frequencies", "majority"]
"""The unit of a loss's mean: tokens, binary classifications, examples, or comparisons.

Comparisons with a teacher (``likeness``) are neither right nor wrong.
"""
Pairs = Literal["none", "consecutive", "random-next", "swapped"]
"""The source of segment pairs: none, the true next text, NSP's random text, SOP's swap."""
Order = Literal["none", "forward", "permuted"]
"""The order in which tokens are predicted, each from those before it; none: all at once."""
System = Literal[
    "bert", "roberta", "albert", "electra", "xlnet", "spanbert", "xlm", "stackingbert",
    "distilbert", "modernbert", "eurobert", "deberta", "mosaicbert", "nomic", "neobert",
    "ultrabert",
]  # fmt: skip
"""The systems with published fine-tuning recipes."""


MASKED_HEAD = "mlm"
"""The name of the head that scores masked tokens."""


class RowShape(NamedTuple):
    """Sizes of one row of a stage, from which outputs and costs of its terms are derived.

    ``examples`` is the most examples per row, ``choices`` the rows per example, ``predictions`` the
    tokens per row that are predicted or replaced, ``queries`` the states of the query stream.
    """

    seq: int
    examples: int = 1
    choices: int = 1
    predictions: int = 0
    queries: int = 0


class StatesRead(NamedTuple):
    """The last states of a row that a term reads.

    Terms with one ``name`` read the same. ``rank`` orders those of several terms; dropout depends
    on that order, so it never changes. ``pooled``: of a whole row one state. ``decoded``: those of
    a mask decoder, where a network has one. ``of_spans``: those around spans, which another term
    has to mask. ``block``: length of the blocks that divide each part of a row, 0: it is one.
    ``through_pooler``: a pooler is applied to a pooled state, and with ``by_token`` to those of
    tokens, in a body that does so.
    """

    name: str
    rank: int = 3
    pooled: bool = False
    decoded: bool = False
    of_spans: bool = False
    block: int = 0
    through_pooler: bool = True
    by_token: bool = False

    def use_pooler(self, body: Body) -> bool:
        """True if the pooler of a body that has one makes the states that the head scores."""
        return self.through_pooler and (self.pooled or (self.by_token and body.pooled.of_tokens))


class TermNode(Node):
    """One kind of objective; subclasses override these defaults.

    ``baseline``: guesses that its results are compared with. ``pairs``: how its segment pairs are
    made. ``order``: that of its predictions; forward needs a causal encoder, permuted two streams.
    ``fills``: what ``bertc fill`` can use it for: masks, the token after the end, or saying of each
    token whether it was replaced. ``system``: by whose recipes a network that learned it is fine-
    tuned.
    """

    baseline: ClassVar[Baseline] = "none"
    is_right_or_wrong: ClassVar[bool] = True  # has an accuracy
    pairs: ClassVar[Pairs] = "none"
    order: ClassVar[Order] = "none"
    fills: ClassVar[Literal["", "masks", "end", "replaced"]] = ""
    system: ClassVar[System | None] = None

    @property
    def title(self) -> str:
        """The name of its loss and scores: its kind."""
        return str(getattr(self, "kind"))  # noqa: B009 - every term has one

    @property
    def head_name(self) -> str:
        """The name of its head; terms with one name share the head."""
        return self.title

    @property
    @abstractmethod
    def head_node(self) -> HeadNode:
        """The layers between states and scores."""

    @property
    def states(self) -> StatesRead:
        """The last states that it reads."""
        return StatesRead(self.head_name)

    @property
    def masks(self) -> Masks | None:
        """Its masking, if it masks tokens of the input."""
        return None

    @property
    def replaces(self) -> Masks | None:
        """Its choice of the tokens that a generator replaces, if it reads replaced tokens.

        Where another term masks tokens, those are replaced.
        """
        return None

    @property
    def teaching(self) -> "TaughtTerm | None":
        """The part that frozen networks teach, if its targets are their outputs."""
        return None

    def predictions(self, seq: int) -> int:
        """Tokens per row that it predicts, or that are predicted for it."""
        return 0

    @abstractmethod
    def head_rows(self, rows: RowShape) -> int:
        """States per example that its head scores."""

    def outputs(self, rows: RowShape) -> int | None:
        """Last states per row that the network outputs for it; None: all of them."""
        return self.head_rows(rows)

    def wanted(self, *, learned: bool) -> Wanted:
        """Outputs that it wants of its own network, or of a frozen one."""
        return Wanted()

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Operations of its head on ``examples`` examples, after the pooler's activation."""
        states = examples * self.head_rows(rows)
        pooled = encoder.pooled.operations(states) if self.states.use_pooler(encoder) else ()
        return (*pooled, *self.head_node.operations(encoder, states, examples))


def is_answerable(term: TermNode, body: Body) -> bool:
    """True if a body with this direction of reading can answer a term; a task is learned in it."""
    of_text = term.order != "none" or term.masks or term.replaces or term.pairs != "none"
    return (term.order == "forward") == body.causal or not of_text


def weights_of_head(term: TermNode, body: Body) -> tuple[Weight, ...]:
    """The weights of a term's head."""
    return term.head_node.weights(term.head_name, body)


def weights_of_heads(heads: Iterable[tuple[TermNode, Body]]) -> tuple[Weight, ...]:
    """The weights of the heads of terms on these networks; of one that terms share once."""
    weights = (weight for term, body in heads for weight in weights_of_head(term, body))
    return tuple({weight.name: weight for weight in weights}.values())


def translates(term: TermNode) -> bool:
    """True if a term reads translation pairs, whose rows other terms do not read."""
    return term.masks is not None and term.masks.translations


def predicts_masked(term: TermNode) -> bool:
    """True if a generator learns the term, where there is one."""
    return term.masks is not None or term.states.of_spans


class TaughtTerm(TermNode):
    """A term that learns from the teachers of its stage, and from nothing else.

    ``asks_head``: it needs a frozen network's own head; without, its head serves the comparison
    alone, and is not exported.
    """

    kind: str
    is_right_or_wrong = False
    asks_head: ClassVar[bool] = False

    @property
    def teaching(self) -> Self:
        return self

    @property
    def compares(self) -> Literal["all", "masked", "first"]:
        """The compared tokens: all real ones, masked ones, or the first one of each example.

        Most kinds have them as the argument ``over``.
        """
        over: Literal["all", "masked"] = getattr(self, "over")  # noqa: B009 - of a subclass
        return over

    @property
    def of_task(self) -> str:
        """The title of the task whose rows alone it reads, in a stage of several; else empty."""
        return ""

    def taught_operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Operations of a frozen network for it, besides the forward pass."""
        return ()


def asks_head(term: TermNode) -> bool:
    """True if a term needs the head of a frozen network."""
    return term.teaching is not None and term.teaching.asks_head


class TextTerm(TermNode):
    """A term learned from text alone, named by its kind."""

    kind: str

    @classmethod
    def of_head(cls, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        """The term of an imported head, from the shapes of weights by name."""
        return cls.model_validate({})


class LanguageModel(TextTerm):
    """A term that predicts tokens with the encoder's head over the vocabulary.

    ``ahead``: each from the state of the token before it.
    """

    baseline = "token frequencies"
    ahead: ClassVar[bool] = False

    @property
    def head_node(self) -> HeadNode:
        return VocabularyHead()

    def head_rows(self, rows: RowShape) -> int:
        return self.predictions(rows.seq)
