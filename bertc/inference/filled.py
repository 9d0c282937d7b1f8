"""Answers of ``bertc fill``: candidates for each mask, and a discriminator's verdicts."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Candidate:
    """A token and its probability."""

    token: str
    probability: float


@dataclass(frozen=True)
class Verdict:
    """A token of the text as it was read, and how likely a discriminator thinks it replaced."""

    token: str
    replaced: float


@dataclass(frozen=True)
class Filled:
    """The likeliest tokens for each mask of a text, or after it, in the order of the text.

    ``verdicts`` are a discriminator's, on the text with the likeliest tokens in it. ``notes`` say
    what of the answer was not asked for.
    """

    text: str
    masks: tuple[tuple[Candidate, ...], ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> str:
        """All of it as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1, ensure_ascii=False)

    def summary(self) -> str:
        """A block of lines a mask, a candidate a line, the likeliest first; then verdicts."""
        blocks = []
        for index, candidates in enumerate(self.masks):
            heading = [f"mask {index + 1}:"] if len(self.masks) > 1 else []
            lines = [f"{c.probability:7.2%}  {c.token}" for c in candidates]
            blocks.append("\n".join([*heading, *lines]))
        if self.verdicts:
            lines = [f"{v.replaced:7.2%}  {v.token}" for v in self.verdicts]
            blocks.append("\n".join(["replaced, thinks the discriminator:", *lines]))
        return "\n".join([*blocks, *(f"note: {note}" for note in self.notes)])
