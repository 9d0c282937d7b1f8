"""``bertc export --proof``: the vectors of a network, and tolerances, which are measured."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path

from bertc.lab.proof.proof import EMBEDDINGS, JSON, POOLED, VECTORS, Proof, Row, Stage, Vectors
from bertc.lab.proof.targets import Arrays, Network, by_stage, in_precision, opened, outputs_of
from bertc.lab.proof.texts import proof_rows
from bertc.lab_api import Graph, weights_digest

CHANNELS, SCORES = 128, 32
"""Numbers of a state, and scores of a token beside the best, that are compared at most."""
TIMES = {"fp32": ("fp64", 10), "bf16": ("bf16", 4), "int8": ("int8", 4)}
"""Precisions, each with that to which it is compared, and the times that others may differ so."""
LEAST = 1e-5
METHOD = (
    "a difference is the length of the difference of two vectors divided by that of the expected "
    "one, of scores by the longest; a tolerance is a multiple of the network's own difference "
    f"between fp32 and fp64 ({TIMES['fp32'][1]}), bf16 ({TIMES['bf16'][1]}), and matrices rounded "
    f"to int8 by row ({TIMES['int8'][1]}), and at least {LEAST:.0e}"
)


def make_proof(run: Path, folder: Path, *, calibrated: bool = False) -> Proof:
    """The proof of a run that was exported to a folder, there perhaps with calibrated heads."""
    model = opened(run, calibrated=calibrated)
    rows, node, network = proof_rows(model), model.encoder.node, Network(model)
    fills = {"input_ids": model.tokenizer.vocabulary.pad, "language_ids": len(node.languages)}
    inputs = {name: fills.get(name, 0) for name in network.graph.inputs}
    alone = [[row] for row in rows]  # padding is to change nothing
    outputs = [*outputs_of(network, alone, inputs)]
    stages = tuple(_stages(network.graph, rows, outputs))
    vectors, tolerances = _taken(stages, rows, outputs), dict[str, dict[str, float]]()
    for precision, (compared, times) in TIMES.items():
        other = Network(in_precision(deepcopy(model), compared))
        again = _taken(stages, rows, outputs_of(other, alone, inputs))
        tolerances[precision] = {
            stage.name: max(LEAST, times * _largest(stage, again[stage.name], vectors[stage.name]))
            for stage in stages
        }
    about = {
        "name": model.resolved.name, "fingerprint": model.resolved.fingerprint(),
        "weights": weights_digest(run), "calibrated": calibrated, "method": METHOD,
        "files": {path.name: digest(path) for path in sorted(folder.iterdir()) if _counts(path)},
    }  # fmt: skip
    return Proof(
        about=about, inputs=inputs, longest=node.room or 0, tolerances=tolerances, stages=stages,
        rows=rows, vectors=vectors,
    )  # fmt: skip


def digest(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _counts(path: Path) -> bool:
    return path.is_file() and path.name not in (JSON, VECTORS, "README.md")


def _stages(graph: Graph, rows: Sequence[Row], outputs: Sequence[Arrays]) -> Iterator[Stage]:
    """The results of a network; of two vectors of a text that of its head."""
    units = [head.title for head in graph.heads if getattr(head, "normalise", False)]
    of_text = [output.name for output in graph.outputs if output.axes == ("batch", "hidden")]
    for number, output in enumerate(graph.outputs):
        name, of_tokens = f"layer {number}" if number else EMBEDDINGS, "length" in output.axes
        if number > len(graph.layers):
            name = POOLED if output.name in of_text else f"scores of {output.name}"
        width = outputs[0][output.name].shape[-1] if len(output.axes) > 1 else 1
        stage = Stage(
            name=name, output=output.name, of_tokens=of_tokens, width=width,
            columns=range(width), unit=output.name in units,
        )  # fmt: skip
        if of_tokens:
            most = CHANNELS if stage.of_states else SCORES
            scored = () if stage.of_states else zip(outputs, rows, strict=True)
            best = {int(n) for x, row in scored for n in x[output.name][[*row.positions]].argmax(1)}
            columns = sorted({*range(0, width, -(-width // most)), *best})
            stage = stage.model_copy(update={"columns": (*columns,)})
        if output.name not in of_text[:-1]:
            yield stage


def _taken(
    stages: Sequence[Stage], rows: Sequence[Row], outputs: Iterable[Arrays]
) -> dict[str, list[Vectors]]:
    """The compared columns of all rows, by stage."""
    by_row = [by_stage(x, stages, row) for x, row in zip(outputs, rows, strict=True)]
    return {
        s.name: [s.take(x[s.name], r, 0) for x, r in zip(by_row, rows, strict=True)] for s in stages
    }


def _largest(stage: Stage, by_row: Sequence[Vectors], expected: Sequence[Vectors]) -> float:
    return max(max(stage.differences(x, number, expected)) for number, x in enumerate(by_row))
