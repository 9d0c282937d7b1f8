"""``bertc verify``: where what a program computes parts from a proof."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from bertc import BertcError, DataError
from bertc.lab.proof.making import digest
from bertc.lab.proof.proof import NOT_FINITE, Answer, Proof, Stage, read_proof
from bertc.lab.proof.targets import target_answers
from bertc.lab_api import Table, escaped, several

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
        elif self.difference >= NOT_FINITE:
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
    """Compare what a target computes with a proof."""
    proof, files = read_proof(proof_path), Path(target)
    try:
        given = [*target_answers(target, proof, precision)]
    except BertcError:
        raise
    except Exception as error:  # anything that a graph or a class of others raises
        said = escaped(str(error).strip().partition("\n")[0])
        raise DataError(f"{target} fails: {type(error).__name__}: {said}") from error
    changed = [
        f"{name} is another file than that of the proof"
        for name, known in proof.about["files"].items()
        if (files / name).is_file() and digest(files / name) != known
    ]
    return replace(compare(proof, given, precision), target=target, notes=(*changed,))


def compare(proof: Proof, given: Sequence[Answer], precision: Precision = "fp32") -> Verified:
    """Compare the answers to all rows with a proof, stage by stage."""
    compared, missing = list[Compared](), list[str]()
    for stage in (None, *proof.stages):
        name = stage.name if stage else TOKENS
        limit = proof.tolerances[precision][name] if stage else 0.0
        places = [
            (difference, number, position)
            for number, answer in enumerate(given)
            if name in answer
            for difference, position in _differences(proof, stage, number, answer[name])
        ]
        if not places:
            missing.append(name)
            continue
        largest, number, position = max(places, key=itemgetter(0))
        rows = {number: proof.rows[number].what for _, number, _ in places}
        beyond = {number: rows[number] for apart, number, _ in places if apart > limit}
        compared.append(
            Compared(name, len(rows), largest, limit, number + 1, position, (*beyond.values(),))
        )
    if not compared:
        raise DataError("the target gives nothing of what the proof has")
    return Verified("", precision, (*compared,), (*missing,), ())


def _differences(
    proof: Proof, stage: Stage | None, number: int, values: Any
) -> Iterator[tuple[float, int | None]]:
    """The differences of a row with their positions; of tokens, which have no stage, 1 or 0."""
    row = proof.rows[number]
    if stage is None:
        pairs = zip_longest(values, row.ids)
        yield from ((float(ids[0] != ids[1]), position) for position, ids in enumerate(pairs))
        return
    expected = proof.vectors[stage.name]
    vectors = stage.take(values, row, f"answer {number + 1}")
    apart = stage.differences(vectors, expected[number], stage.longest(expected))
    yield from zip(apart.tolist(), row.positions if stage.of_tokens else [None], strict=True)
