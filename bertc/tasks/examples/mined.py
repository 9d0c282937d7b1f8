"""Hard negatives of pairs: other passages that a trained network ranks near a query.

Axes: q queries of a block, c candidate passages.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.ir.address import key
from bertc.ir.learning.vector_task import Mined
from bertc.text.cache.store import Progress, fingerprint, obtain

VERSION = 1
FILE = "negatives.npy"


class VectorNetworks(Protocol):
    """Networks that compare texts, by their folders."""

    def digest(self, folder: str) -> str:
        """sha256 of the weights in a folder."""

    def likeness(
        self, folder: str, queries: Sequence[str], passages: Sequence[str], progress: Progress
    ) -> Iterator[NDArray[np.float32]]:
        """Similarities (q, c) of some queries after others with all passages."""


def mined(
    node: Mined,
    title: str,
    pairs: Sequence[tuple[str, str]],
    networks: VectorNetworks,
    cache: Path,
    progress: Progress,
) -> list[tuple[str, ...]]:
    """``node.number`` negatives for each pair of a query and its positive, stored in the cache.

    Passages that differ in case or white space alone are one.
    """
    passages = [*dict.fromkeys(_fold(positive) for _, positive in pairs)]
    written = {_fold(positive): positive for _, positive in reversed(pairs)}
    numbers = {passage: number for number, passage in enumerate(passages)}
    positives = [numbers[_fold(positive)] for _, positive in pairs]
    right: dict[str, set[int]] = {}  # of a query
    for (query, _), positive in zip(pairs, positives, strict=True):
        right.setdefault(_fold(query), set()).add(positive)
    if len(passages) < node.number + max(map(len, right.values())):
        raise DataError(
            f"{title}: its pairs have {len(passages):,} different positives, too few to take "
            f"{node.number:,} negatives among them",
            "more pairs, or a column of negatives (negative=)",
        )
    content = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    how = node.model_dump(mode="json", exclude={"run"})
    folder = cache / "mined" / fingerprint(VERSION, how, content, networks.digest(node.run))

    def make(to: Path) -> dict[str, int]:
        texts = [written[passage] for passage in passages]
        queries = [(query, right[_fold(query)]) for query, _ in pairs]
        chosen, facts = _search(node, queries, positives, texts, networks, progress)
        np.save(to / FILE, chosen)
        return facts

    facts = obtain(folder, make, progress)
    above = f"{title}: {facts['false']:,} texts above {node.margin:g} of their positive's score"
    progress.note(f"{above} are no negatives; {facts['drawn']:,} of the negatives are random")
    return [tuple(written[passages[n]] for n in row) for row in np.load(folder / FILE).tolist()]


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


def _search(
    node: Mined,
    queries: Sequence[tuple[str, set[int]]],
    positives: Sequence[int],
    texts: Sequence[str],
    networks: VectorNetworks,
    progress: Progress,
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Numbers (n, number) of the texts that are negatives, with counts for a remark.

    ``queries`` have all of their positives, ``positives`` are those of the examples.
    """
    rows, facts = list[list[int]](), {"false": 0, "drawn": 0}
    most = min(len(texts), node.top + max(len(right) for _, right in queries))
    asked = [query for query, _ in queries]
    for likeness_qc in networks.likeness(node.run, asked, texts, progress):
        near_qk, first = np.argpartition(-likeness_qc, most - 1, axis=1)[:, :most], len(rows)
        for nth, (likeness_c, near_k) in enumerate(zip(likeness_qc, near_qk, strict=True), first):
            _, right = queries[nth]
            near = near_k[np.argsort(-likeness_c[near_k], kind="stable")].tolist()
            ranked = [number for number in near if number not in right][node.skip : node.top]
            of_positive = float(likeness_c[positives[nth]])  # which may be below 0
            limit = of_positive - (1 - node.margin) * abs(of_positive)
            hard = [number for number in ranked if likeness_c[number] <= limit]
            facts["false"] += len(ranked) - len(hard)
            row = hard[: node.number]
            facts["drawn"] += node.number - len(row)
            row += _drawn(node.number - len(row), {*right, *row}, len(texts), nth)
            rows.append(row)
    return np.array(rows, dtype=np.int64), facts


def _drawn(count: int, without: set[int], passages: int, example: int) -> list[int]:
    """Random passages, where a search finds too few."""
    random, drawn = Random(key(0, "negatives", example)), list[int]()
    while len(drawn) < count:
        number = random.randrange(passages)
        if number not in without and number not in drawn:
            drawn.append(number)
    return drawn
