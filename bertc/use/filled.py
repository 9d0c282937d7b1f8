"""Answers of ``bertc fill``: candidates for each mask, and a discriminator's verdicts."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Candidate:
    """A token and its probability, between 0 and 1."""

    token: str
    probability: float


@dataclass(frozen=True)
class Verdict:
    """A token of the text as read, and a discriminator's probability that it was replaced."""

    token: str
    replaced: float


@dataclass(frozen=True)
class Filled:
    """The likeliest tokens for each mask of a text, or after it, in the order of the text.

    ``verdicts`` are a discriminator's, on the text with its masks filled. ``notes`` are remarks on
    how the text was read.
    """

    text: str
    masks: tuple[tuple[Candidate, ...], ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The answer as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1, ensure_ascii=False)

    def summary(self) -> str:
        """Text: per mask a block of candidates, likeliest first; then verdicts."""
        blocks = []
        for index, candidates in enumerate(self.masks):
            heading = [f"mask {index + 1}:"] if len(self.masks) > 1 else []
            lines = [f"{c.probability:7.2%}  {c.token}" for c in candidates]
            blocks.append("\n".join([*heading, *lines]))
        if self.verdicts:
            lines = [f"{v.replaced:7.2%}  {v.token}" for v in self.verdicts]
            blocks.append("\n".join(["probability of being replaced:", *lines]))
        return "\n".join([*blocks, *(f"note: {note}" for note in self.notes)])
