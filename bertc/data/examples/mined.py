"""Hard negatives of pairs: other passages that a trained network ranks near a query.

Axes: q queries of a block, c candidate passages, d numbers of a vector.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.data.cache.store import Progress, fingerprint, obtain
from bertc.ir.address import key
from bertc.ir.learning.mining import Mined, TextKind

VERSION = 1
FILE = "negatives.npy"
_QUERIES_AT_ONCE = 256


class VectorNetworks(Protocol):
    """Networks that make vectors, by their folders."""

    def digest(self, folder: str) -> str:
        """sha256 of the weights in a folder."""

    def vectors(
        self, folder: str, texts: Sequence[str], kind: TextKind, progress: Progress
    ) -> NDArray[np.float32]:
        """Vectors (n, d) whose dot products are the similarities of the network in a folder."""

    def judged(self, folder: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Scores from 0 to 1 of a query and a passage each, by the reranker in a folder."""


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

    Raises:
        DataError: if there are too few passages.
        MissingInputError: if the folder of the network is not there.
    """
    passages = [*dict.fromkeys(_folded(positive) for _, positive in pairs)]
    written = {_folded(positive): positive for _, positive in reversed(pairs)}
    _refuse_too_few(node, title, pairs, len(passages))
    content = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    inputs = [
        VERSION,
        node.model_dump(mode="json", exclude={"run", "judge"}),
        content,
        *map(networks.digest, filter(None, (node.run, node.judge))),
    ]
    folder = cache / "mined" / fingerprint(*inputs)

    def make(to: Path) -> dict[str, int]:
        at = {passage: number for number, passage in enumerate(passages)}
        positives = np.array([at[_folded(positive)] for _, positive in pairs])
        texts = [written[passage] for passage in passages]
        vectors_cd = networks.vectors(node.run, texts, "document", progress)
        vectors_nd = networks.vectors(node.run, [query for query, _ in pairs], "query", progress)
        judged = _judge(node.judge, texts, networks)
        progress.begin(f"searching negatives of {title}", len(pairs), "texts")
        chosen, facts = _search(node, pairs, positives, vectors_nd, vectors_cd, judged, progress)
        progress.end()
        np.save(to / FILE, chosen)
        return facts

    facts = obtain(folder, make, progress)
    told = f"{title}: {facts['false']:,} texts above {node.margin:g} of their positive's score"
    progress.note(f"{told} are no negatives; {facts['drawn']:,} of the negatives are random")
    return [
        tuple(written[passages[number]] for number in row)
        for row in np.load(folder / FILE).tolist()
    ]


def _refuse_too_few(
    node: Mined, title: str, pairs: Sequence[tuple[str, str]], passages: int
) -> None:
    """Refuse pairs with fewer passages than a query has negatives and positives."""
    of_query: dict[str, set[str]] = {}
    for query, positive in pairs:
        of_query.setdefault(_folded(query), set()).add(_folded(positive))
    if passages < node.number + max(map(len, of_query.values())):
        raise DataError(
            f"{title}: its pairs have {passages:,} different positives, too few to take "
            f"{node.number:,} negatives among them",
            "more pairs, or a column of negatives (negative=)",
        )


def _judge(
    run: str, texts: Sequence[str], networks: VectorNetworks
) -> Callable[[str, list[int]], Sequence[float]] | None:
    """A function from a query and numbers of passages to the scores of a reranker, if any."""
    if not run:
        return None
    return lambda query, of: networks.judged(run, [(query, texts[number]) for number in of])


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _search(
    node: Mined,
    pairs: Sequence[tuple[str, str]],
    positives: NDArray[np.int64],
    vectors_nd: NDArray[np.float32],
    vectors_cd: NDArray[np.float32],
    judged: Callable[[str, list[int]], Sequence[float]] | None,
    progress: Progress,
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Numbers (n, number) of the passages that are negatives, with counts for a remark."""
    right: dict[str, set[int]] = {}
    for (query, _), positive in zip(pairs, positives.tolist(), strict=True):
        right.setdefault(_folded(query), set()).add(positive)
    rows, facts = list[list[int]](), {"false": 0, "drawn": 0}
    most = min(len(vectors_cd), node.top + max(map(len, right.values())))
    for first in range(0, len(pairs), _QUERIES_AT_ONCE):
        likeness_qc = vectors_nd[first : first + _QUERIES_AT_ONCE] @ vectors_cd.T
        near_qk = np.argpartition(-likeness_qc, most - 1, axis=1)[:, :most]
        windows = list[list[int]]()
        for likeness_c, near, (query, _) in zip(likeness_qc, near_qk, pairs[first:], strict=False):
            near = near[np.argsort(-likeness_c[near], kind="stable")]
            others = [number for number in near.tolist() if number not in right[_folded(query)]]
            windows.append(others[node.skip : node.top])
        for nth, ranked in enumerate(windows):
            (query, _), positive = pairs[first + nth], positives[first + nth]
            likeness_c, of = likeness_qc[nth], right[_folded(query)]
            if judged:
                likeness_c[[positive, *ranked]] = judged(query, [positive, *ranked])
            limit = _limit(float(likeness_c[positive]), node.margin)
            hard = [number for number in ranked if likeness_c[number] <= limit]
            facts["false"] += len(ranked) - len(hard)
            row = hard[: node.number]
            facts["drawn"] += node.number - len(row)
            row += _drawn(node.number - len(row), {*of, *row}, len(vectors_cd), first + nth)
            rows.append(row)
        progress.advance(len(near_qk))
    return np.array(rows, dtype=np.int64), facts


def _limit(positive: float, margin: float) -> float:
    """The highest similarity of a negative, also where the positive's is below 0."""
    return positive - (1 - margin) * abs(positive)


def _drawn(count: int, without: set[int], passages: int, example: int) -> list[int]:
    """Random passages, where a search finds too few."""
    random, drawn = Random(key(0, "negatives", example)), list[int]()
    while len(drawn) < count:
        number = random.randrange(passages)
        if number not in without and number not in drawn:
            drawn.append(number)
    return drawn
