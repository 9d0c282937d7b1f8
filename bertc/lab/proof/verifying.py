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
from bertc.lab.proof.proof import NOT_FINITE, TOKENS, Answer, Proof, Stage, read_proof
from bertc.lab.proof.targets import target_answers
from bertc.lab_api import Table, escaped, several

Precision = Literal["fp32", "bf16", "int8"]


@dataclass(frozen=True)
class Compared:
    """A stage: the largest difference, its place, and the texts in which it is too large.

    ``texts`` are those that have it; ``text`` is counted from 1, ``position`` from 0.
    """

    stage: str
    texts: int
    difference: float
    tolerance: float
    text: int
    position: int | None
    beyond: tuple[str, ...]

    def __str__(self) -> str:
        size = f"differs by {self.difference:.1e}"
        size = "is not finite" if self.difference >= NOT_FINITE else size
        limit = f" (tolerance {self.tolerance:.1e})" if self.tolerance else ""
        place = "" if self.position is None else f", position {self.position}"
        where = f"{'differs' if self.stage == TOKENS else size} at text {self.text}{place}{limit}"
        among = f"{len(self.beyond)} of {several(self.texts, 'text')}: {', '.join(self.beyond)}"
        return f"{self.stage}: {where}: what differs begins here\nit differs in {among}"


@dataclass(frozen=True)
class Verified:
    """All stages in the order in which they are computed, and those that the target has not."""

    target: str
    precision: str
    stages: tuple[Compared, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> Compared | None:
        """The first stage that differs."""
        return next((stage for stage in self.stages if stage.beyond), None)

    def as_json(self) -> str:
        """The comparison as one JSON object."""
        return json.dumps({"schema": 1, "agrees": self.first is None, **asdict(self)}, indent=1)

    def as_table(self) -> str:
        """A row a stage, and the first place where they part."""
        lacks = f"not compared, as the target has none: {', '.join(self.missing)}"
        ends = str(self.first or f"agrees in {several(len(self.stages), 'stage')}")
        rows = [(s.stage, s.difference, s.tolerance, s.texts) for s in self.stages]
        head = ("stage", "largest difference", "tolerance", "texts")
        units = (str, "{:.1e}".format, "{:.1e}".format, str)
        notes = (*self.notes, *[lacks] * bool(self.missing), ends)
        return str(Table(head, rows, f"{self.target}, {self.precision}", notes, units))


def verify(proof_path: Path, target: str, precision: Precision = "fp32") -> Verified:
    """Compare what a target computes with a proof."""
    proof, files = read_proof(proof_path), Path(target)
    try:
        answers = [*target_answers(target, proof, precision)]
    except BertcError:
        raise
    except Exception as error:  # anything that a graph or a class of others raises
        said = escaped(str(error).strip().partition("\n")[0])
        raise DataError(f"{target} fails: {type(error).__name__}: {said}") from error
    others = [
        f"note: {name} is another file than that of the proof"
        for name, known in proof.about["files"].items()
        if (files / name).is_file() and digest(files / name) != known
    ]
    return replace(compare(proof, answers, precision), target=target, notes=(*others,))


def compare(proof: Proof, answers: Sequence[Answer], precision: Precision = "fp32") -> Verified:
    """Compare the answers to all rows with a proof, stage by stage."""
    compared, missing, tolerances = list[Compared](), list[str](), proof.tolerances[precision]
    stages = {TOKENS: None, **{stage.name: stage for stage in proof.stages}}
    for name, stage in stages.items():
        places = [
            (difference, number, position)
            for number, answer in enumerate(answers)
            if name in answer
            for difference, position in _differences(proof, stage, number, answer[name])
        ]
        if not places:
            missing.append(name)
            continue
        limit, (largest, number, position) = tolerances.get(name, 0), max(places, key=itemgetter(0))
        texts = {number for _, number, _ in places}
        beyond = dict.fromkeys(proof.rows[n].what for apart, n, _ in places if apart > limit)
        compared.append(
            Compared(name, len(texts), largest, limit, number + 1, position, (*beyond,))
        )
    if not compared:
        raise DataError("the target gives nothing of what the proof has")
    return Verified("", precision, (*compared,), (*missing,))


def _differences(
    proof: Proof, stage: Stage | None, number: int, values: Any
) -> Iterator[tuple[float, int | None]]:
    """The differences of a row with their positions; of tokens, which have no stage, 1 or 0."""
    row = proof.rows[number]
    if stage is None:
        pairs = zip_longest(values, row.ids)
        yield from ((float(ids[0] != ids[1]), position) for position, ids in enumerate(pairs))
        return
    vectors = stage.take(values, row, number + 1)
    apart = stage.differences(vectors, number, proof.vectors[stage.name])
    yield from zip(apart, row.positions if stage.of_tokens else [None], strict=True)
