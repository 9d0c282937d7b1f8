"""``bertc export RUN --onnx``: a folder with a graph, its description and the tokenizer."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertc import Trained, UsageError, load
from bertc.lab.onnx.runtime import package
from bertc.lab.onnx.tracing import OPSET, Check, compare, quantise, to_onnx
from bertc.lab_api import Graph, units

NAME, INT8, DESCRIPTION = "model.onnx", "model.int8.onnx", "onnx.json"


@dataclass(frozen=True)
class OnnxFolder:
    """An exported folder: its graph, and the bytes of each file of one."""

    path: Path
    graph: Graph
    checked: Check
    sizes: Mapping[str, int]

    def summary(self) -> str:
        """Lines: the file, what it reads and gives, what was checked, sizes, notes."""
        first, graph = self.sizes[NAME], self.graph
        outputs = ", ".join(f"{output.name} ({', '.join(output.axes)})" for output in graph.outputs)
        shapes = ", ".join(f"{rows} x {tokens}" for rows, tokens in self.checked.shapes)
        lines = [
            f"{self.path / NAME}: {units.bytes_text(first)}, reads {', '.join(graph.inputs)} "
            "(batch, length)",
            f"gives {outputs}",
            f"onnxruntime and torch differ by {self.checked.difference:.1e} at most, in rows of "
            f"{shapes} tokens",
        ]
        if size := self.sizes.get(INT8):
            lines.append(f"{INT8}: {units.bytes_text(size)}, {size / first:.2f} of that")
        return "\n".join(lines)


def export_onnx(run: Path, to: Path, *, int8: bool = False) -> OnnxFolder:
    """Write a run's model as an ONNX graph into a folder, with its tokenizer; also in ``int8``."""
    if to.suffix == ".onnx":
        raise UsageError(
            f"{to} is the name of a graph, and the tokenizer needs a place next to it",
            help=f"name a folder: --onnx {to.with_suffix('')}",
        )
    package("onnxruntime")
    model = load(run)
    graph = model.graph()
    say = partial(print, file=sys.stderr)
    say("tracing the graph")
    files = {NAME: to_onnx(graph)}
    say("checking it in onnxruntime")
    checked = compare(graph, files[NAME])
    if int8:
        say("quantising it")
        files[INT8] = quantise(files[NAME])
    described = json.dumps(_describe(graph, model, checked), indent=1, ensure_ascii=False)
    model.save_tokenizer(to, {**files, DESCRIPTION: f"{described}\n".encode()})
    return OnnxFolder(to, graph, checked, {name: len(content) for name, content in files.items()})


def _describe(graph: Graph, model: Trained, checked: Check) -> dict[str, Any]:
    """Inputs, outputs and limits of a graph as plain values, for those who run it."""
    body = graph.model.encoder.node
    return {
        "schema": 1, "name": graph.model.resolved.name,
        "fingerprint": graph.model.resolved.fingerprint(),
        "inputs": {name: ["batch", "length"] for name in graph.inputs},
        "outputs": {one.name: {"axes": one.axes, "labels": one.labels} for one in graph.outputs},
        "longest_row": body.room, "pad": model.tokenizer.vocabulary.pad,
        "languages": body.languages, "opset": OPSET,
        "checked": {"shapes": checked.shapes, "difference": checked.difference},
        "versions": {name: version(name) for name in ("bertc", "torch", "onnxruntime")},
    }  # fmt: skip
