"""The node of a term: everything about it but its tensors, stated once and asked by all rooms.

The other half of a term is its class in ``objectives/``, which ``objectives.terms.tensors_of``
joins to the node. Outside checks, recipes and interop nothing else names a kind of objective.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from bertc.ir import operation as op
from bertc.ir.base import Node, Weight
from bertc.ir.network.body import Body
from bertc.ir.terms.heads import HeadNode, VocabularyHead

if TYPE_CHECKING:
    from bertc.ir.terms.masked import Mlm, Tlm

LONG, FP32 = 8, 4
"""Bytes of an id or a position, and of a weight."""
Scored = Literal["tokens", "binary", "examples"]
"""What a loss is a mean over: tokens named, questions of yes or no, or labelled examples."""
Pairs = Literal["none", "consecutive", "random-next", "swapped"]
"""How a paired input is made: no pair, always the true next text, NSP's draw, SOP's swap."""


@dataclass(frozen=True)
class RowShape:
    """The numbers of one row of a stage that outputs and costs of its terms follow from.

    ``examples`` is the most that one row holds, ``choices`` the rows that one example takes, and
    ``predictions`` the tokens whose original is predicted or replaced.
    """

    seq: int
    examples: int = 1
    choices: int = 1
    predictions: int = 0


class TermNode(Node):
    """One kind of objective. Subclasses state what differs from these defaults.

    ``scored``: what its loss is a mean over. ``predicts_masked``: a generator learns it where there
    is one. ``judges_guesses``: it needs a source of replaced tokens, such as a generator.
    ``pairs``: how the rows it asks about are paired. ``translations``: it reads rows of a text and
    its translation, and terms that do not read the others. ``causal``: its encoder sees no token
    ahead. ``output_rank`` orders what terms read of a row: dropout follows it, so it never changes.
    ``fills``: what it teaches to fill in a text, the masks or the token after its end.
    """

    scored: ClassVar[Scored]
    predicts_masked: ClassVar[bool] = False
    judges_guesses: ClassVar[bool] = False
    pairs: ClassVar[Pairs] = "none"
    translations: ClassVar[bool] = False
    causal: ClassVar[bool] = False
    output_rank: ClassVar[int] = 3
    fills: ClassVar[Literal["", "masks", "end"]] = ""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of its loss and its scores."""

    @property
    def head_name(self) -> str:
        """The name of its head; terms of one name share the head and the states it reads."""
        return self.title

    @property
    @abstractmethod
    def head_node(self) -> HeadNode:
        """The layers between the states it reads and its scores."""

    @property
    def masks(self) -> "Mlm | Tlm | None":
        """How it hides tokens of the input, if it does."""
        return None

    @property
    def masks_alone(self) -> "Mlm | Tlm | None":
        """How it chooses tokens where no other term of the stage hides any."""
        return None

    @property
    def pooled(self) -> bool:
        """Whether it reads the pooled first token."""
        return False

    @property
    def divisor_extra(self) -> int:
        """Number added to the count of predictions that the summed loss is divided by."""
        return 0

    def predictions(self, seq: int) -> int:
        """Tokens a row whose original it predicts or has predicted."""
        return 0

    def query_states(self, seq: int) -> int:
        """Second states a row, of the query stream (XLNet 2.3)."""
        return 0

    @abstractmethod
    def head_rows(self, rows: RowShape) -> int:
        """States of one example that its head turns into scores."""

    def outputs(self, rows: RowShape) -> int | None:
        """States of a row that its network hands to it; None: all of them."""
        return self.head_rows(rows)

    def target_bytes(self, rows: RowShape) -> int:
        """Bytes a row of its own targets, without those of a masking that terms share."""
        return 0

    def weights(self, encoder: Body) -> tuple[Weight, ...]:
        """The weights of its head."""
        return self.head_node.weights(self.head_name, encoder)

    def operations(self, encoder: Body, rows: RowShape, examples: int) -> op.Operations:
        """The operations of its head over so many examples, the pooler's activation before it."""
        states = examples * self.head_rows(rows)
        pooled = (op.Pointwise("tanh", states * encoder.hidden, kept=2 * states * encoder.hidden),)
        head = self.head_node.operations(encoder, states, examples)
        return (*(pooled if self.pooled else ()), *head)


class TextTerm(TermNode):
    """A term that is learned from text alone, called by its kind."""

    kind: str

    @property
    def title(self) -> str:
        """Its kind."""
        return self.kind


class LanguageModel(TextTerm):
    """Predict tokens by the encoder's head over the vocabulary."""

    scored = "tokens"

    @property
    def head_node(self) -> HeadNode:
        """The encoder's own kind."""
        return VocabularyHead()

    def head_rows(self, rows: RowShape) -> int:
        """One for each prediction."""
        return self.predictions(rows.seq)
