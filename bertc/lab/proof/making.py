"""``bertc export --proof``: the vectors of a network, and tolerances, which are measured."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertc.lab.proof.network import Network, answers, in_precision, opened, padded
from bertc.lab.proof.proof import EMBEDDINGS, JSON, POOLED, VECTORS, Answer, Proof, Stage, Vectors
from bertc.lab.proof.texts import Row, proof_rows
from bertc.lab_api import weights_digest

CHANNELS, SCORES = 128, 32
"""Numbers of a state, and scores of a token beside the best, that are compared at most."""
TIMES = {"fp32": 10, "bf16": 4, "int8": 4}
"""Precisions, and how many times the network's own difference in each others may have."""
LEAST = 1e-5
METHOD = (
    "a difference is the length of the difference of two vectors divided by that of the expected "
    f"one, of scores by the longest; a tolerance is {TIMES['fp32']} times the largest between the "
    f"network in fp32 and in fp64, {TIMES['bf16']} times that in bf16, {TIMES['int8']} times that "
    f"with matrices rounded to int8 by row, and at least {LEAST:.0e}"
)


def make_proof(run: Path, folder: Path, *, calibrated: bool = False) -> Proof:
    """The proof of a run that was exported to a folder, there perhaps with calibrated heads."""
    model = opened(run, calibrated=calibrated)
    rows, node, network = proof_rows(model.tokenizer), model.encoder.node, Network(model)
    fills = {"input_ids": model.tokenizer.vocabulary.pad, "language_ids": len(node.languages)}
    inputs = {name: fills.get(name, 0) for name in network.graph.inputs}
    alone = [[row] for row in rows]  # padding is to change nothing
    stages = [*_stages(network, padded(rows[:1], inputs))]
    complete = [*answers(network, alone, inputs, stages)]
    stages = [_narrowed(stage, complete) for stage in stages]
    vectors, tolerances = taken(stages, rows, complete), dict[str, dict[str, float]]()
    for precision, times in TIMES.items():
        other = in_precision(deepcopy(model), "fp64" if precision == "fp32" else precision)
        again = taken(stages, rows, answers(Network(other), alone, inputs, stages))
        tolerances[precision] = {
            stage.name: max(LEAST, times * _largest(stage, again[stage.name], vectors[stage.name]))
            for stage in stages
        }
    about = {
        "name": model.resolved.name, "fingerprint": model.resolved.fingerprint(),
        "weights": weights_digest(run), "files": digests(folder), "calibrated": calibrated,
        "method": METHOD,
    }  # fmt: skip
    return Proof(about, inputs, node.room or 0, tolerances, (*stages,), (*rows,), vectors)


def taken(
    stages: Sequence[Stage], rows: Sequence[Row], given: Iterable[Answer]
) -> dict[str, list[Vectors]]:
    """The compared columns of all rows, by stage."""
    results: dict[str, list[Vectors]] = {stage.name: [] for stage in stages}
    for row, answer in zip(rows, given, strict=True):
        for stage in stages:
            results[stage.name].append(stage.take(answer[stage.name], row, row.what))
    return results


def digests(folder: Path) -> dict[str, str]:
    """sha256 of the files of an export, but for proofs and the card."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    others = (path for path in files if path.name not in (JSON, VECTORS, "README.md"))
    return {path.name: digest(path) for path in others}


def digest(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stages(network: Network, inputs: dict[str, NDArray[np.int64]]) -> Iterator[Stage]:
    """The results of a network with all their columns; of two vectors of a text the learned one."""
    outputs, results = network.graph.outputs, network(inputs)
    depth = len(network.graph.layers)
    of_text = [output.name for output in outputs if output.axes == ("batch", "hidden")]
    for number, output in enumerate(outputs):
        name = f"layer {number}" if number else EMBEDDINGS
        if number > depth:
            name = POOLED if output.name in of_text else f"scores of {output.name}"
        if output.name not in of_text[:-1]:
            width = results[output.name].shape[-1] if len(output.axes) > 1 else 1
            of_tokens = "length" in output.axes
            yield Stage(name, output.name, of_tokens, width, (*range(width),), output.unit)


def _narrowed(stage: Stage, complete: Sequence[Answer]) -> Stage:
    """A stage with the columns that are compared: of tokens those that are likeliest too."""
    if not stage.of_tokens:
        return stage
    most = CHANNELS if stage.of_states else SCORES
    spaced = range(0, stage.width, -(-stage.width // most))
    best = [] if stage.of_states else [int(n) for x in complete for n in x[stage.name].argmax(-1)]
    return replace(stage, columns=(*sorted({*spaced, *best}),))


def _largest(stage: Stage, vectors: Sequence[Vectors], expected: Sequence[Vectors]) -> float:
    longest = stage.longest(expected)
    pairs = zip(vectors, expected, strict=True)
    return max(float(stage.differences(*pair, longest).max()) for pair in pairs)
