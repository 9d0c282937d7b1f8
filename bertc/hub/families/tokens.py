"""A vocabulary as an export needs it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from bertc.text.vocab.vocabulary import Vocabulary


@dataclass(frozen=True)
class Wordless:
    """A vocabulary without files, of which some ids are known."""

    pad: int
    cls: int | None = None
    sep: int | None = None
    bos: int | None = None
    eos: int | None = None
    cls_last: bool = False

    def save(self, *_: object) -> None:
        """Write nothing."""


Tokens = Union["Vocabulary", Wordless]


def ends(tokens: Tokens) -> dict[str, int | None]:
    """Tokens before and after a text; those of a row if the tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }
