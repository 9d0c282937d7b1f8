"""Graphs in onnxruntime. Loads no torch."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertc.lab_api import optional_package

NEEDED = ("onnx", "onnxscript", "onnxruntime")
package = partial(optional_package, what="ONNX graphs", extra="onnx")
ERRORS_ONLY = 3
"""The log level of onnxruntime at which it prints no warnings."""


class GraphSession:
    """A graph, loaded to be run on ``threads`` threads of the CPU (0: all)."""

    def __init__(self, graph: bytes | Path, threads: int = 0) -> None:
        ort = package("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = ERRORS_ONLY
        content = graph if isinstance(graph, bytes) else str(graph)
        self._session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(node.name for node in self._session.get_inputs())
        self.outputs = tuple(node.name for node in self._session.get_outputs())

    def __call__(self, inputs: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.float32]]:
        """The outputs by name; of ``inputs`` those are taken that the graph reads."""
        taken = {name: inputs[name] for name in self.inputs}
        return dict(zip(self.outputs, self._session.run(None, taken), strict=True))
