"""A vocabulary as an export needs it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


class Tokens(Protocol):
    """Ids of special tokens, None if unknown, and saving."""

    @property
    def pad(self) -> int:
        """Id of the padding token."""

    @property
    def cls(self) -> int | None:
        """Id of the token that represents a whole row."""

    @property
    def sep(self) -> int | None:
        """Id of the token that ends a segment."""

    @property
    def bos(self) -> int | None:
        """Id of the configured first token."""

    @property
    def eos(self) -> int | None:
        """Id of the configured last token."""

    @property
    def cls_last(self) -> bool:
        """True if ``cls`` is the last token of a row."""

    def save(
        self,
        folder: Path,
        seq: int = 0,
        room: int | None = None,
        segments: Literal["needed", "unread", "as-it-came"] = "as-it-came",
        /,
    ) -> object:
        """Write the tokenizer's files into a folder; rows have ``seq`` tokens, at most ``room``."""


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


def ends(tokens: Tokens) -> dict[str, int | None]:
    """Tokens before and after a text; those of a row if the tokenizer names no others."""
    return {
        "bos_token_id": tokens.cls if tokens.bos is None else tokens.bos,
        "eos_token_id": tokens.sep if tokens.eos is None else tokens.eos,
    }
