"""``bertc verify``: where what a program computes parts from a proof."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertc import DataError
from bertc.lab.proof.making import digest
from bertc.lab.proof.proof import Answer, Proof, Stage, read_proof
from bertc.lab.proof.targets import target_answers
from bertc.lab.proof.texts import Row
from bertc.lab_api import Table, several

TOKENS = "tokens"
Precision = Literal["fp32", "bf16", "int8"]


@dataclass(frozen=True)
class Compared:
    """A stage of all rows that have it: the largest difference, its place, where it is too large.

    ``rows`` is their number; ``text`` is counted from 1, ``position`` from 0, None: of a text.
    """

    stage: str
    rows: int
    difference: float
    tolerance: float
    text: int
    position: int | None
    beyond: tuple[str, ...]

    def __str__(self) -> str:
        if self.stage == TOKENS:
            size = "differ"
        elif self.difference == np.inf:
            size = "is not finite"
        else:
            size = f"differs by {self.difference:.1e}"
        place = "" if self.position is None else f", position {self.position}"
        limit = "" if self.stage == TOKENS else f" (tolerance {self.tolerance:.1e})"
        return f"{self.stage}: {size} at text {self.text}{place}{limit}: what differs begins here"


@dataclass(frozen=True)
class Verified:
    """All stages in the order in which they are computed, and those that the target has not."""

    target: str
    precision: str
    stages: tuple[Compared, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def first(self) -> Compared | None:
        """The first stage that differs."""
        return next((stage for stage in self.stages if stage.beyond), None)

    def as_json(self) -> str:
        """The comparison as one JSON object."""
        agrees = {"agrees": self.first is None}
        return json.dumps({"schema": 1, **agrees, **asdict(self)}, indent=1, ensure_ascii=False)

    def as_table(self) -> str:
        """A row a stage, and the first place where they part."""
        notes = [f"note: {note}" for note in self.notes]
        if self.missing:
            notes.append(f"not compared, as the target has none: {', '.join(self.missing)}")
        if self.first:
            beyond = self.first.beyond
            among = f"{len(beyond)} of {several(self.first.rows, 'text')}"
            notes += [str(self.first), f"it differs in {among}: {', '.join(beyond)}"]
        else:
            notes.append(f"agrees in {several(len(self.stages), 'stage')}")
        rows = [(s.stage, s.difference, s.tolerance, s.rows) for s in self.stages]
        head = ("stage", "largest difference", "tolerance", "texts")
        units = (str, "{:.1e}".format, "{:.1e}".format, str)
        return str(Table(head, rows, f"{self.target}, {self.precision}", notes, units))


def verify(proof_path: Path, target: str, precision: Precision = "fp32") -> Verified:
    """Compare what a target computes with a proof; a text with other tokens no further."""
    proof = read_proof(proof_path)
    given = [*target_answers(target, proof, precision)]
    same = [answer.get(TOKENS, row.ids) for row, answer in zip(proof.rows, given, strict=True)]
    read_alike = [[*ids] == [*row.ids] for row, ids in zip(proof.rows, same, strict=True)]
    compared = [_tokens(proof.rows, given)] if any(TOKENS in answer for answer in given) else []
    missing = [] if compared else [TOKENS]
    tolerances = proof.tolerances[precision]
    for stage in proof.stages:
        has = [stage.name in answer for answer in given]
        numbers = [n for n, alike in enumerate(read_alike) if alike and has[n]]
        if numbers:
            compared.append(_compared(proof, stage, numbers, given, tolerances[stage.name]))
        elif not any(has):
            missing.append(stage.name)
    if not compared:
        raise DataError(
            f"{target} gives nothing that the proof has", help="docs/how-to/anywhere.md"
        )
    return Verified(target, precision, (*compared,), (*missing,), (*_notes(proof, Path(target)),))


def _tokens(rows: Sequence[Row], given: Sequence[Answer]) -> Compared:
    """The ids of all rows that have them, of which each counts as different or not."""
    firsts = dict[int, int]()
    has = [number for number, answer in enumerate(given) if TOKENS in answer]
    for number in has:
        ids, expected = [*given[number][TOKENS]], [*rows[number].ids]
        if ids != expected:
            alike = (a == b for a, b in zip(ids, expected, strict=False))
            firsts[number] = next(
                (n for n, same in enumerate(alike) if not same), min(len(ids), len(expected))
            )
    text, position = next(iter(firsts.items()), (0, 0))
    beyond = tuple(rows[number].what for number in firsts)
    return Compared(TOKENS, len(has), float(bool(firsts)), 0.0, text + 1, position, beyond)


def _compared(
    proof: Proof, stage: Stage, numbers: Sequence[int], given: Sequence[Answer], tolerance: float
) -> Compared:
    expected, differences = proof.vectors[stage.name], dict[int, NDArray[np.float64]]()
    longest = stage.longest(expected)
    for number in numbers:
        vectors = stage.take(given[number][stage.name], proof.rows[number], f"text {number + 1}")
        differences[number] = stage.differences(vectors, expected[number], longest)
    worst = max(numbers, key=lambda number: differences[number].max())
    row, of_row = proof.rows[worst], differences[worst]
    position = row.positions[int(of_row.argmax())] if stage.of_tokens else None
    beyond = tuple(proof.rows[n].what for n in numbers if differences[n].max() > tolerance)
    return Compared(
        stage.name, len(numbers), float(of_row.max()), tolerance, worst + 1, position, beyond
    )


def _notes(proof: Proof, folder: Path) -> Iterator[str]:
    """Files of a folder that are others than those next to which the proof was written."""
    for name, known in proof.about["files"].items():
        if (folder / name).is_file() and digest(folder / name) != known:
            yield f"{name} is another file than that of the proof"
