"""The base of term nodes: all facts about a term except its tensors.

The tensor side of a term is a class in ``learn/objectives/``, joined to the node by
``objectives.terms.tensors_of``. Other code asks the node and names no kind of objective; only
defaults and Hugging Face families list some.
"""

from abc import abstractmethod
from collections.abc import Mapping
from operator import not_
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Node, Weight
from bertc.ir.network.body import Body
from bertc.ir.network.wanted import Wanted
from bertc.ir.terms.heads import HeadNode, VocabularyHead

if TYPE_CHECKING:
    from bertc.ir.terms.masked import MaskedTerm

LONG, FP32 = 8, 4
"""Bytes of an id or position, and of a weight."""
Scored = Literal["tokens", "binary", "examples", "likeness"]
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
]  # fmt: skip
"""The systems with published fine-tuning recipes."""


class RowShape(NamedTuple):
    """Sizes of one row of a stage, from which outputs and costs of its terms are derived.

    ``examples`` is the most examples per row, ``choices`` the rows per example, ``predictions`` the
    tokens per row that are predicted or replaced.
    """

    seq: int
    examples: int = 1
    choices: int = 1
    predictions: int = 0


class TermNode(Node):
    """One kind of objective; subclasses override these defaults.

    ``scored``: the unit of its loss. ``predicts_masked``: the generator learns it, if there is one.
    ``needs_replacements``: it needs a source of replaced tokens. ``detects``: it says of each token
    whether it was replaced. ``taught``: its targets are
    outputs of frozen networks. ``pairs``: how its segment pairs are made. ``translations``: it
    reads translation pairs, and other terms do not read those rows. ``reads_spans``: it needs a
    term that masks spans. ``order``: that of its predictions; forward needs a causal encoder,
    permuted two streams. ``output_rank`` orders the states that terms read of a row; dropout
    depends on that order, so it never changes. ``fills``: what ``bertc fill`` can use it for:
    masks, or the token after the end. ``compares_examples``: its loss holds the examples of a
    batch against each other. ``system``: the one that introduced it, by whose recipes a network
    that learned it is fine-tuned.
    """

    scored: ClassVar[Scored]
    predicts_masked: ClassVar[bool] = False
    needs_replacements: ClassVar[bool] = False
    detects: ClassVar[bool] = False
    taught: ClassVar[bool] = False
    pairs: ClassVar[Pairs] = "none"
    translations: ClassVar[bool] = False
    reads_spans: ClassVar[bool] = False
    compares_examples: ClassVar[bool] = False
    order: ClassVar[Order] = "none"
    output_rank: ClassVar[int] = 3
    fills: ClassVar[Literal["", "masks", "end"]] = ""
    system: ClassVar[System | None] = None

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of its loss and scores."""

    def answered_by(self, body: Body) -> bool:
        """True if a body with this direction of reading can answer it."""
        return (self.order == "forward") == body.causal

    @property
    def head_name(self) -> str:
        """The name of its head; terms with one name share the head."""
        return self.title

    @property
    def states_name(self) -> str:
        """The name of the last states that it reads; terms of one name read the same."""
        return self.head_name

    @property
    @abstractmethod
    def head_node(self) -> HeadNode:
        """The layers between states and scores."""

    @property
    def scores_tokens(self) -> bool:
        """True if its head projects onto the token table."""
        return self.scored == "tokens"

    @property
    def masks(self) -> "MaskedTerm | None":
        """Its masking, if it masks tokens of the input."""
        return None

    @property
    def masks_alone(self) -> "MaskedTerm | None":
        """Its choice of tokens, by its own ``p``, where no other term of the stage masks any."""
        return None

    @property
    def pooled(self) -> bool:
        """True if it reads the pooled first token."""
        return False

    @property
    def decodes(self) -> bool:
        """True if it reads the states of a network's mask decoder, where there is one."""
        return False

    @property
    def of_task(self) -> str:
        """The title of the task whose rows alone it reads, in a stage of several; else empty."""
        return ""

    @property
    def divisor_extra(self) -> int:
        """A constant added to the count of predictions by which the summed loss is divided."""
        return 0

    def pieces(self, steps: int) -> tuple[tuple[Self, int], ...]:
        """The term in each piece of a stage of ``steps`` steps, with the steps of the piece."""
        return ((self, steps),)

    @property
    def held_out(self) -> Self:
        """The term as evaluations have it."""
        return self

    def predictions(self, seq: int) -> int:
        """Tokens per row that it predicts, or that are predicted for it."""
        return 0

    @property
    def block_length(self) -> int:
        """Length of the blocks that have to divide each part of a row; 0: it is one."""
        return 0

    def query_states(self, seq: int) -> int:
        """Query-stream states per row (XLNet 2.3)."""
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

    @property
    def asks_head(self) -> bool:
        """True if it needs a frozen network's own head."""
        return False

    @property
    def only_for_teachers(self) -> bool:
        """True if its head serves only the comparison with a teacher, and is not exported."""
        return self.taught and not self.asks_head

    @property
    def taught_by_token(self) -> bool:
        """True if a frozen network says something of each token, not of each answer of a task."""
        return False

    def taught_widths(self, body: Body) -> tuple[int, ...]:
        """Numbers that a frozen network of this body says of each, a tensor each, in tasks."""
        return ()

    def taught_operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Operations of a frozen network for it, besides the forward pass."""
        return ()

    def target_bytes(self, rows: RowShape) -> int:
        """Bytes per row of its own targets, without a masking shared between terms."""
        return 0

    def weights(self, encoder: Body) -> tuple[Weight, ...]:
        """The weights of its head."""
        return self.head_node.weights(self.head_name, encoder)

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """Operations of its head on ``examples`` examples, after the pooler's activation."""
        states = examples * self.head_rows(rows)
        pooled = encoder.pooled_operations(states)
        head = self.head_node.operations(encoder, states, examples)
        return (*(pooled if self.reads_pooler(encoder) else ()), *head)

    def reads_pooler(self, body: Body) -> bool:
        """True if the pooler of a body that has one makes the states that its head scores."""
        return self.pooled


class TextTerm(TermNode):
    """A term learned from text alone, named by its kind."""

    kind: str

    @property
    def title(self) -> str:
        """Its kind."""
        return self.kind

    @classmethod
    def of_head(cls, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        """The term of an imported head, from the shapes of weights by name.

        Raises:
            DataError: if no term has such a head.
        """
        return cls.model_validate({})


class LanguageModel(TextTerm):
    """A term that predicts tokens with the encoder's head over the vocabulary.

    In training ``z`` x log(Z)^2 is added to each prediction's loss, Z the sum that its softmax
    divides by, which keeps scores from drifting (PaLM, section 5; ModernBERT, ``loss.z_loss``).
    """

    z: Annotated[float, Field(ge=0, le=1, exclude_if=not_)] = 0.0

    scored = "tokens"

    @property
    def head_node(self) -> HeadNode:
        """The vocabulary head."""
        return VocabularyHead()

    def head_rows(self, rows: RowShape) -> int:
        """One state per prediction."""
        return self.predictions(rows.seq)
