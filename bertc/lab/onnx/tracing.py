"""Tracing a graph to ONNX, checking it in onnxruntime, and quantising its weights."""

import logging
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertc import DataError
from bertc.lab.onnx.runtime import NEEDED, GraphSession, package
from bertc.lab_api import Graph

OPSET = 20
"""Version of ONNX's operators: the first that has GELU as one."""
MOST_GRAPH_BYTES = 2**31 - 1
"""A graph is one protobuf message, which can be no larger."""
TOLERANCE = 1e-4
"""Largest difference to torch, of values up to 1; of larger ones in proportion."""
TRACED = (2, 6)
"""Rows and tokens of the inputs that are traced: 1 would stand for itself alone."""
CHECKED = ((1, 1), (2, 5), (5, 17))
"""Rows and tokens of the inputs that are checked, beside one row of the greatest length."""
LONGEST_CHECKED = 1024
ANOTHER_RELEASE = (
    "another release of onnxruntime or torch; constraints.txt has those that are tested"
)


@dataclass(frozen=True)
class Check:
    """Shapes (rows, tokens) at which outputs were compared, and the largest difference."""

    shapes: tuple[tuple[int, int], ...]
    difference: float


def random_inputs(graph: Graph, rows: int, tokens: int, seed: int = 0) -> dict[str, Tensor]:
    """Random inputs of a graph; the last of several rows is half padding."""
    generator = torch.Generator().manual_seed(seed)
    body = graph.model.encoder.node
    shape = (rows, tokens)
    mask = torch.ones(shape, dtype=torch.long)
    if rows > 1:
        mask[-1, -(tokens // 2) or tokens :] = 0
    every = {
        "input_ids": torch.randint(body.vocab_size, shape, generator=generator),
        "attention_mask": mask,
        "token_type_ids": (torch.arange(tokens) > tokens // 2).long().repeat(rows, 1) * mask,
        "language_ids": torch.randint(len(body.languages) + 1, shape, generator=generator),
    }
    return {name: every[name] for name in graph.inputs}


def to_onnx(graph: Graph) -> bytes:
    """The graph as an ONNX file, for any number of rows and tokens."""
    for name in NEEDED:
        package(name)
    size = sum(weight.numel() * weight.element_size() for weight in graph.parameters())
    if size > MOST_GRAPH_BYTES:
        raise DataError(
            f"the weights take {size:,} bytes, and an ONNX file holds {MOST_GRAPH_BYTES:,}",
            help="--to FOLDER writes them without that limit",
        )
    rows, tokens = TRACED
    room = graph.model.encoder.node.room
    inputs = random_inputs(graph, rows, min(tokens, room or tokens))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=room)}
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            graph, kwargs=inputs, dynamo=True, verbose=False, optimize=False, opset_version=OPSET,
            input_names=list(graph.inputs), output_names=[output.name for output in graph.outputs],
            dynamic_shapes=dict.fromkeys(inputs, axes),
        )  # fmt: skip
        assert program is not None, "it is given no file"
        # With limits of our own: maps that are laid side by side become one matrix, as a matrix
        # that is made within a graph is not quantised.
        limits = dict.fromkeys(("input_size_limit", "output_size_limit"), MOST_GRAPH_BYTES)
        package("onnxscript.optimizer").optimize_ir(program.model, **limits)
        content: bytes = program.model_proto.SerializeToString()
    return content


def compare(graph: Graph, content: bytes) -> Check:
    """Compare an ONNX file in onnxruntime with the module, at several shapes."""
    session, largest = GraphSession(content), 0.0
    room = min(graph.model.encoder.node.room or LONGEST_CHECKED, LONGEST_CHECKED)
    shapes = [(rows, tokens) for rows, tokens in CHECKED if tokens < room]
    shapes.append((1, room))
    for rows, tokens in shapes:
        inputs = random_inputs(graph, rows, tokens, seed=tokens)
        with torch.no_grad():
            expected = [tensor.numpy() for tensor in graph(**inputs)]
        try:
            got = session({name: tensor.numpy() for name, tensor in inputs.items()})
        except Exception as error:  # its own classes, which have no base in common
            raise DataError(
                f"onnxruntime does not run the graph for {rows} x {tokens} tokens; nothing was "
                "written",
                help=ANOTHER_RELEASE,
            ) from error
        for output, values in zip(graph.outputs, expected, strict=True):
            difference = _difference(values, got[output.name])
            if not difference <= TOLERANCE:
                raise DataError(
                    f"onnxruntime and torch differ by {difference:.1e} in {output.name} of "
                    f"{rows} x {tokens} tokens; nothing was written",
                    help=ANOTHER_RELEASE,
                )
            largest = max(largest, difference)
    return Check(tuple(shapes), largest)


def _difference(first: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The largest difference, over the largest value where that is above 1; inf for shapes."""
    if first.shape != other.shape:
        return math.inf
    return float(np.abs(first - other).max() / max(1.0, np.abs(first).max()))


def quantise(content: bytes) -> bytes:
    """The graph with weights and tables in int8, a scale per channel; activations as they come."""
    onnx, quantization = package("onnx"), package("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder, quiet():
        target = Path(folder) / "int8.onnx"
        quantization.quantize_dynamic(
            onnx.load_from_string(content), target, per_channel=True,
            weight_type=quantization.QuantType.QInt8,
        )  # fmt: skip
        written: bytes = onnx.load(target).SerializeToString()
    return written


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and logs of the exporter's own code from the user, who can change nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
