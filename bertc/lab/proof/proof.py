"""``proof.json`` and ``proof.safetensors``: texts, and what a network computes of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from bertc import DataError, MissingInputError
from bertc.lab.proof.texts import Row

JSON, VECTORS = "proof.json", "proof.safetensors"
EMBEDDINGS, POOLED = "embeddings", "pooled"
DESCRIBED = ("about", "inputs", "longest", "tolerances")
SMALLEST, NOT_FINITE = 1e-30, 1e30
Vectors = NDArray[np.float64]
"""Vectors (k, columns) of a row: at its positions, or one of the row."""
Answer = Mapping[str, Any]
"""Full vectors of a row by stage; with ``tokens`` its ids."""


@dataclass(frozen=True)
class Stage:
    """A result of a network: vectors of ``width`` numbers, of which ``columns`` are compared.

    ``output`` is its name in a graph. Those ``of_tokens`` are compared at the positions of a row.
    ``unit`` vectors are used at length 1, so that their direction alone counts.
    """

    name: str
    output: str
    of_tokens: bool
    width: int
    columns: tuple[int, ...]
    unit: bool = False

    @property
    def of_states(self) -> bool:
        """True for embeddings and layers."""
        return self.name == EMBEDDINGS or self.name.startswith("layer ")

    def take(self, values: Any, row: Row, where: str) -> Vectors:
        """The compared columns of a row's vectors, which are complete or have these alone."""
        count = len(row.positions) if self.of_tokens else 1
        try:
            vectors = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{where}: {self.name} is no list of numbers of one shape") from None
        if vectors.size == count * self.width:
            vectors = vectors.reshape(count, self.width)[:, [*self.columns]]
        elif vectors.size != count * len(self.columns):
            shape = " x ".join(map(str, vectors.shape)) or "1"
            raise DataError(
                f"{where}: {self.name} has {shape} numbers, not {count} x {self.width}",
                help=f"a vector for each of the positions {[*row.positions]}" * self.of_tokens,
            )
        vectors = vectors.reshape(count, -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if self.unit else 1.0
        taken: Vectors = vectors / np.maximum(lengths, SMALLEST)
        return taken

    def longest(self, expected: Sequence[Vectors]) -> float:
        """The length of the longest vector."""
        return max(float(np.linalg.norm(vectors, axis=1).max()) for vectors in expected)

    def differences(
        self, vectors: Vectors, expected: Vectors, longest: float
    ) -> NDArray[np.float64]:
        """The length of each difference, divided by that of the expected state; for NaN the most.

        Scores, which may be near 0, are divided by the ``longest`` of all.
        """
        lengths = np.linalg.norm(expected, axis=1) if self.of_states else np.asarray([longest])
        apart = np.linalg.norm(vectors - expected, axis=1) / np.maximum(lengths, SMALLEST)
        return np.where(np.isfinite(apart), apart, NOT_FINITE)


@dataclass(frozen=True)
class Proof:
    """Rows, the vectors of every stage for each, and how far others may be from these.

    ``about`` says of which network it is. ``inputs`` are those of its graph, with the values of
    padding; ``longest`` is where rows are cut, 0: nowhere.
    """

    about: Mapping[str, Any]
    inputs: Mapping[str, int]
    longest: int
    tolerances: Mapping[str, Mapping[str, float]]
    stages: tuple[Stage, ...]
    rows: tuple[Row, ...]
    vectors: Mapping[str, Sequence[Vectors]]

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(stage.of_states for stage in self.stages) - 1

    @property
    def scores(self) -> list[Stage]:
        """The results of heads."""
        return [s for s in self.stages if not s.of_states and s.name != POOLED]

    def files(self) -> dict[str, bytes]:
        """The two files by name; the description has a line for each stage and row."""
        entries = {name: json.dumps(vars(self)[name]) for name in DESCRIBED}
        for name, values in (("stages", self.stages), ("rows", self.rows)):
            lines = ",\n  ".join(json.dumps(asdict(value)) for value in values)
            entries[name] = f"[\n  {lines}\n ]"
        text = ",\n".join(f' "{name}": {value}' for name, value in entries.items())
        # safetensors writes the bytes as they lie.
        joined = {
            name: np.ascontiguousarray(np.concatenate(vectors), dtype=np.float32)
            for name, vectors in self.vectors.items()
        }
        return {JSON: f'{{\n "schema": 1,\n{text}\n}}\n'.encode(), VECTORS: save(joined)}


def read_proof(path: Path) -> Proof:
    """Read a proof: its folder, or its ``proof.json``."""
    file = path / JSON if path.is_dir() else path
    if not file.is_file():
        help = "bertc export RUN --to FOLDER --proof writes one"
        raise MissingInputError(f"there is no {file}", help=help)
    try:
        entries = json.loads(file.read_bytes())
        rows, stages = ([_tuples(x) for x in entries[name]] for name in ("rows", "stages"))
        joined = load(file.with_name(VECTORS).read_bytes())
        kinds = [Stage(**stage) for stage in stages]
        proof = Proof(
            **{name: entries[name] for name in DESCRIBED},
            stages=(*kinds,), rows=tuple(Row(**row) for row in rows), vectors={},
        )  # fmt: skip
        vectors = {stage.name: _by_row(joined[stage.name], stage, proof.rows) for stage in kinds}
        return replace(proof, vectors=vectors)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        message = f"{file}, with {VECTORS} next to it, is no proof: {error}"
        raise DataError(message, help="export it again, or copy both files") from None


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: (*x,) if isinstance(x, list) else x for name, x in fields.items()}


def _by_row(lines: NDArray[Any], stage: Stage, rows: Sequence[Row]) -> list[Vectors]:
    counts = [len(row.positions) if stage.of_tokens else 1 for row in rows]
    if lines.shape != (sum(counts), len(stage.columns)):
        raise ValueError(f"{stage.name} has the shape {lines.shape}")
    return np.split(lines.astype(np.float64), np.cumsum(counts)[:-1])
