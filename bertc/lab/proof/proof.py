"""``proof.json`` and ``proof.safetensors``: texts, and what a network computes of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from safetensors.numpy import load, save

from bertc import DataError, MissingInputError

JSON, VECTORS = "proof.json", "proof.safetensors"
TOKENS, EMBEDDINGS, POOLED = "tokens", "embeddings", "pooled"
SMALLEST, NOT_FINITE = 1e-30, 1e30
Vectors = NDArray[np.float64]
"""Vectors (k, columns) of a row: at its positions, or one of the row."""
Answer = dict[str, Any]
"""Vectors of a row by stage, in full; with ``tokens`` its ids."""


class Row(BaseModel, frozen=True):
    """A text or a pair as a network reads it; rows of one ``batch`` are read together, padded.

    States and scores are compared at ``positions``.
    """

    what: str
    text: str
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    positions: tuple[int, ...]
    pair: str | None = None
    batch: int | None = None


class Stage(BaseModel, frozen=True):
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

    def take(self, values: Any, row: Row, number: int) -> Vectors:
        """The compared columns of a row's vectors, which are complete or have these alone."""
        count = len(row.positions) if self.of_tokens else 1
        try:
            vectors = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"answer {number}: {self.name} is no list of numbers") from None
        if vectors.size == count * self.width:
            vectors = vectors.reshape(count, self.width)[:, [*self.columns]]
        elif vectors.size != count * len(self.columns):
            shape = " x ".join(map(str, vectors.shape)) or "1"
            message = f"{self.name} has {shape} numbers, not {count} x {self.width}"
            raise DataError(f"answer {number}: {message}", help=f"positions {[*row.positions]}")
        vectors = vectors.reshape(count, -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True) if self.unit else np.ones(1)
        return np.divide(vectors, np.maximum(lengths, SMALLEST))

    def differences(
        self, vectors: Vectors, number: int, expected: Sequence[Vectors]
    ) -> list[float]:
        """The length of each difference from a row, divided by that of the expected state.

        Scores, which may be near 0, are divided by the longest of all rows.
        """
        longest = 0.0 if self.of_states else max(float(_lengths(x).max()) for x in expected)
        lengths = np.maximum(_lengths(expected[number]), max(longest, SMALLEST))
        apart = _lengths(vectors - expected[number]) / lengths
        return [float(x) for x in np.where(np.isfinite(apart), apart, NOT_FINITE)]


class Proof(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """Rows, the vectors of every stage for each, and how far others may be from these.

    ``about`` says of which network it is. ``inputs`` are those of its graph, with the values of
    padding; ``longest`` is where rows are cut, 0: nowhere.
    """

    about: dict[str, Any]
    inputs: dict[str, int]
    longest: int
    tolerances: dict[str, dict[str, float]]
    stages: tuple[Stage, ...]
    rows: tuple[Row, ...]
    vectors: dict[str, list[Vectors]] = Field(default_factory=dict, exclude=True)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(stage.of_states for stage in self.stages) - 1

    @property
    def scores(self) -> list[Stage]:
        """The results of heads."""
        return [s for s in self.stages if not s.of_states and s.name != POOLED]

    def files(self) -> dict[str, bytes]:
        """The two files by name."""
        entries = {"schema": 1, **self.model_dump(mode="json")}.items()
        text = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries)
        # safetensors writes bytes as they lie.
        joined = {
            name: np.ascontiguousarray(np.concatenate(vectors), dtype=np.float32)
            for name, vectors in self.vectors.items()
        }
        return {JSON: f"{{{text}}}\n".encode(), VECTORS: save(joined)}


def read_proof(path: Path) -> Proof:
    """Read a proof: its folder, or its ``proof.json``."""
    file = path / JSON if path.is_dir() else path
    if not file.is_file():
        help = "bertc export RUN --to FOLDER --proof writes one"
        raise MissingInputError(f"there is no {file}", help=help)
    try:
        proof = Proof.model_validate_json(file.read_bytes())
        joined = load(file.with_name(VECTORS).read_bytes())
        for stage in proof.stages:
            counts = [len(row.positions) if stage.of_tokens else 1 for row in proof.rows]
            lines = joined[stage.name].reshape(sum(counts), len(stage.columns))
            by_row = np.split(lines.astype(np.float64), np.cumsum(counts)[:-1])
            proof.vectors[stage.name] = [*by_row]
    except Exception as error:  # of safetensors too, whose base is that of all
        message = f"{file}, with {VECTORS} next to it, is no proof that can be read"
        raise DataError(message, help="export it again, or copy both files") from error
    return proof


def _lengths(vectors: Vectors) -> Vectors:
    return np.asarray(np.linalg.norm(vectors, axis=1))
