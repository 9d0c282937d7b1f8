"""Changed copies of a task's training examples, taught besides them; turned rows of DNA.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.3;
Jiao et al. 2020, TinyBERT, algorithm 1 and data_augmentation.py.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Count, Node, Probability


class NoCopies(Node):
    """The examples as they are."""

    kind: Literal["none"] = "none"


class _Copies(Node):
    """Copies of a ``share`` of the examples, drawn by ``seed`` and not by that of the run.

    So runs with other seeds learn from the same text. Of a pair the copies change the first text,
    the second, and both, in turns (Tang et al. 2019, 3.3).
    """

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Count = 0


class EditedCopies(_Copies):
    """Words masked, then maybe an n-gram alone.

    A word is masked with probability ``mask``. With ``ngram`` only a run of up to ``longest`` words
    is left.
    """

    kind: Literal["edit"] = "edit"
    mask: Probability = 0.1  # section 4.2, p_mask
    ngram: Probability = 0.25  # p_ng
    longest: Annotated[int, Field(ge=1, le=1000)] = 5  # section 3.3
    positional: ClassVar[tuple[str, ...]] = ("mask", "ngram")


class ReplacedCopies(_Copies):
    """Words replaced with ``probability`` by one of the ``candidates`` that fit best.

    For a word of one piece these are the likeliest of the masked-language model ``model``, which
    reads the text again beside it; for a word of several pieces its nearest in ``vectors``.
    """

    kind: Literal["replace"] = "replace"
    model: Annotated[str, Field(min_length=1)]
    vectors: str = ""
    probability: Probability = 0.4  # data_augmentation.py --p
    candidates: Annotated[int, Field(ge=1, le=1000)] = 15  # --M
    positional: ClassVar[tuple[str, ...]] = ("model", "vectors")


class ReverseComplement(Node):
    """Rows of text as the other strand of DNA has them, each with ``probability`` in every pass.

    The order of tokens is reversed, and each is exchanged for the one of the complementary letters,
    also of ambiguous ones (IUPAC).
    """

    kind: Literal["reverse_complement"] = "reverse_complement"
    probability: Annotated[float, Field(gt=0, le=1)] = 0.5
    positional = ("probability",)


Changes = EditedCopies | ReplacedCopies


class Augmentation(Node):
    """A source of copies; ``weight`` is their number for each example that has any."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    copies: Annotated[EditedCopies | ReplacedCopies | ReverseComplement | NoCopies, BY_KIND]

    def counts(self, examples: int) -> tuple[int, int]:
        """The number of the examples that are copied, and of copies of all of them together."""
        if not isinstance(self.copies, Changes):
            return 0, 0
        copied = round(self.copies.share * examples)
        return copied, round(self.weight * copied)


UNCHANGED = (Augmentation(copies=NoCopies()),)
"""The augmentation of a stage without any."""


def chance_of_turns(augment: tuple[Augmentation, ...]) -> float:
    """The probability with which rows of text are turned; 0 if that is not all that is asked."""
    match augment:
        case (Augmentation(weight=1, copies=ReverseComplement(probability=chance)),):
            return chance
    return 0.0
