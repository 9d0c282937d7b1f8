"""Examples as a person reads them: what the model sees, and what it is asked."""

import io
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from bertc.data.vocabulary import Vocabulary

COLUMNS = 100
STYLES = {"mask": "bold cyan", "other": "bold magenta", "same": "bold green", "special": "dim"}
LEGEND = (
    "read⟨predict⟩: a mask or another token stands for the one to predict; token⟨=⟩: it stands "
    "there itself"
)


@dataclass(frozen=True)
class Example:
    """One row, as plain arrays.

    ``read`` (s,) is what the encoder reads and ``originals`` (s,) what stood there; ``predicted``
    holds the positions whose token is to be predicted. ``asked`` are further questions and answers,
    such as {"nsp": "B follows A"}.
    """

    read: NDArray[np.integer]
    originals: NDArray[np.integer]
    segments: NDArray[np.integer]
    length: int
    predicted: frozenset[int]
    asked: Mapping[str, str]


def show(examples: list[Example], vocabulary: Vocabulary, color: bool) -> str:
    """The examples, one after the other, the second text of a pair on a line of its own."""
    out = io.StringIO()
    console = Console(file=out, width=COLUMNS, force_terminal=color, highlight=False)
    if any(example.predicted for example in examples):
        console.print(Text(LEGEND, style="dim"))
    for number, example in enumerate(examples, start=1):
        asked = [f"{term}: {answer}" for term, answer in example.asked.items()]
        heading = [f"{example.length} tokens", f"{len(example.predicted)} predicted", *asked]
        padding = len(example.read) - example.length
        heading += [f"{padding} of padding"] if padding else []
        console.print(Text(f"\nexample {number}: {', '.join(heading)}", style="bold"))
        second = np.flatnonzero(example.segments[: example.length])
        cut = int(second[0]) if len(second) else example.length
        for name, start, end in (("A", 0, cut), ("B", cut, example.length)):
            if start < end:
                label = f"{name}: " if cut < example.length else ""
                console.print(
                    Text(label, style="bold").append_text(_line(example, vocabulary, start, end))
                )
    return out.getvalue().lstrip("\n")


def _line(example: Example, vocabulary: Vocabulary, start: int, end: int) -> Text:
    line = Text()
    for at in range(start, end):
        read, original = int(example.read[at]), int(example.originals[at])
        written = _visible(vocabulary.token(read))
        if at in example.predicted:
            kind = "same" if read == original else "mask" if read == vocabulary.mask else "other"
            answer = "=" if kind == "same" else _visible(vocabulary.token(original))
            line.append(f"{written}⟨{answer}⟩", style=STYLES[kind])
        else:
            line.append(written, style=STYLES["special"] if vocabulary.special[read] else "")
        line.append(" ")
    line.rstrip()
    return line


def _visible(token: str) -> str:
    """The token with control and direction characters spelled out."""
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c
        for c in token
    )
