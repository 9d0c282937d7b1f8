"""Rules by which documents are left out of a text."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bertc.ir.base import Count, Node


class Documents(Node):
    """The documents that are read of a text, each rule off unless written.

    ``unique``: of documents that are equal but for case and white space, the first alone.
    ``shortest``, ``longest``: characters. ``letters``: least share of letters, with their marks,
    among the characters that are no white space. ``tokens``: most tokens a character (Geiping and
    Goldstein 2022, section 4.4; trash_cutoff of their code).
    """

    kind: Literal["documents"] = "documents"
    unique: bool = False
    shortest: Count = 0
    longest: Count = 0
    letters: Annotated[float, Field(ge=0, lt=1)] = 0.0
    tokens: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _some_are_left(self) -> "Documents":
        if 0 < self.longest < self.shortest:
            raise ValueError(
                f"clean removes every document: the shortest has {self.shortest:,} characters, "
                f"the longest {self.longest:,}",
                f"longest={self.shortest} or more",
            )
        return self


EVERY = Documents()
"""The rules that leave nothing out."""
