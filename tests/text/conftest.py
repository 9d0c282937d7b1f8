"""A small corpus made on the spot, and programs that read it."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes import resolve
from bertc.ir.program.resolved import Resolved
from bertc.lang import load
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.text.batches.batch import RawBatch
from bertc.text.cache.store import Silent
from bertc.text.sources.source import Piece

WORDS = "hen duck goose barn yard egg corn lake reed wing feather cluck quack nest straw".split()  # noqa: SIM905

Make = Callable[..., PreparedCorpus]


def same(one: RawBatch, other: RawBatch) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


def joined(*parts: RawBatch) -> RawBatch:
    return RawBatch(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0]))
    )


def document(number: int, sentences: int) -> str:
    """Text whose every sentence names its document and its place, so tokens tell where they are."""
    rng = random.Random(number)
    return " ".join(
        f"D{number} s{place} {' '.join(rng.choices(WORDS, k=rng.randint(3, 12)))}."
        for place in range(sentences)
    )


def documents(pieces: Iterable[Piece]) -> list[str]:
    """Documents put together from their pieces."""
    found: list[str] = []
    for piece in pieces:
        found += [""] if piece.first else []
        found[-1] += piece.text
    return found


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents of 1 to 30 sentences, as JSON lines."""
    path = tmp_path_factory.mktemp("farm") / "farm.jsonl"
    rows = (json.dumps({"text": document(n, 1 + n % 30)}) for n in range(60))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def resolved(*settings: str) -> Resolved:
    """A toy program with these settings."""
    spec = " ".join(["layers=1 hidden=16 heads=1", *settings])
    diagnostics = Diagnostics()
    programs = load(spec, [], diagnostics)
    diagnostics.raise_if_any()
    return resolve(programs[0], diagnostics)


@pytest.fixture(scope="session")
def made(farm: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Prepare the farm, or other data, for a program; all share one cache."""
    cache = tmp_path_factory.mktemp("cache")

    def make(*settings: str, data: str = "") -> PreparedCorpus:
        steps = "" if any("steps=" in part for part in settings) else "steps=40"
        program = resolved(f"data={data or json.dumps(str(farm))} {steps}", *settings)
        return prepare(program, cache, Silent())

    return make


@pytest.fixture(scope="session")
def program() -> Callable[..., Resolved]:
    """A toy program from its settings."""
    return resolved
