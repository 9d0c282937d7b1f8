"""Rows as the inputs of a network, and bertc's own networks in several precisions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertc import Trained, load
from bertc.lab.proof.proof import Answer, Row, Stage
from bertc.lab_api import divide_by_temperatures

DTYPES = {"bf16": torch.bfloat16, "fp64": torch.float64}
Arrays = dict[str, NDArray[Any]]
Call = Callable[[Arrays], Arrays]
"""A network: inputs (rows, tokens) to outputs by their names in a graph."""


def opened(run: Path, *, calibrated: bool) -> Trained:
    """The network of a run; ``calibrated``: its heads have the temperatures of an export."""
    model = load(run)
    if calibrated:
        weights, _ = divide_by_temperatures(run, model.resolved, model.state_dict())
        model.load_state_dict(weights)
    return model


def in_precision(model: Trained, precision: str) -> Trained:
    """A network turned to bf16 or fp64, or with matrices rounded to int8 by row."""
    if precision in DTYPES:
        model.to(DTYPES[precision]).compute_dtype = DTYPES[precision]
    for weight in model.parameters() if precision == "int8" else ():
        if weight.ndim == 2:
            steps = weight.data.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
            weight.data = (weight.data / steps).round() * steps
    return model


class Network:
    """A network of bertc as a ``Call``, with the states of all layers."""

    def __init__(self, model: Trained) -> None:
        self.graph = model.graph(layers=True)

    @torch.no_grad()
    def __call__(self, inputs: Arrays) -> Arrays:
        """Its outputs by name."""
        results = self.graph(**{name: torch.from_numpy(inputs[name]) for name in self.graph.inputs})
        names = (output.name for output in self.graph.outputs)
        return dict(zip(names, (result.numpy() for result in results), strict=True))


def outputs_of(
    call: Call, batches: Iterable[Sequence[Row]], inputs: Mapping[str, int]
) -> Iterator[Arrays]:
    """The outputs of every row; ``inputs`` are those of the network, with values of padding."""
    for rows in batches:
        shape = len(rows), max(len(row.ids) for row in rows)
        arrays = {name: np.full(shape, fill) for name, fill in inputs.items()}
        for number, row in enumerate(rows):
            known = {"input_ids": row.ids, "token_type_ids": row.segments, "attention_mask": 1}
            for name in arrays.keys() & known:
                arrays[name][number, : len(row.ids)] = known[name]
        outputs = call(arrays)
        yield from ({n: x[number] for n, x in outputs.items()} for number in range(len(rows)))


def by_stage(outputs: Arrays, stages: Iterable[Stage], row: Row) -> Answer:
    """The outputs of a row as an answer: those of tokens at its positions."""
    known_stages = {stage: outputs[stage.output] for stage in stages if stage.output in outputs}
    return {s.name: x[[*row.positions]] if s.of_tokens else x for s, x in known_stages.items()}
