"""``bertc export RUN --onnx``: a folder with a graph, its description and the tokenizer."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertc import Graph, Trained, UsageError, bytes_text, graph_scores, load
from bertc.hub.folder import replacing
from bertc.lab.onnx.runtime import GraphSession, package
from bertc.lab.onnx.tracing import OPSET, Check, compared, quantised, to_onnx

NAME, DESCRIPTION = "model.onnx", "onnx.json"
EXAMPLES = 1000
"""Examples of a dev part on which graphs are scored, unless more or fewer are asked for."""
Files = Mapping[str, bytes]
"""Graphs by precision: fp32, int8."""


@dataclass(frozen=True)
class OnnxFolder:
    """An exported folder: bytes of each graph, and its scores by precision, task and metric."""

    path: Path
    inputs: tuple[str, ...]
    outputs: Mapping[str, tuple[str, ...]]
    """The axes of each."""
    checked: Check
    sizes: Mapping[str, int]
    scores: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]

    def summary(self) -> str:
        """Lines: the file, what it reads and gives, what was checked, sizes, scores, notes."""
        first = self.sizes["fp32"]
        outputs = ", ".join(f"{name} ({', '.join(axes)})" for name, axes in self.outputs.items())
        shapes = ", ".join(f"{rows} x {tokens}" for rows, tokens in self.checked.shapes)
        lines = [
            f"{self.path}: {bytes_text(first)}, reads {', '.join(self.inputs)} (batch, length)",
            f"gives {outputs}",
            f"onnxruntime and torch differ by {self.checked.difference:.1e} at most, in rows of "
            f"{shapes} tokens",
        ]
        if quantised_bytes := self.sizes.get("int8"):
            ratio = quantised_bytes / first
            name = int8_of(self.path).name
            lines.append(f"{name}: {bytes_text(quantised_bytes)}, {ratio:.2f} of that")
        for title in self.scores.get("fp32", {}):
            values = (f"{scores[title]:.4g} in {name}" for name, scores in self.scores.items())
            lines.append(f"{title}: {', '.join(values)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def int8_of(path: Path) -> Path:
    """The file with the same graph in int8."""
    return path.with_suffix(".int8.onnx")


def export_onnx(
    run: Path, to: Path, *, int8: bool = False, examples: int = EXAMPLES, quiet: bool = False
) -> OnnxFolder:
    """Write a run's model as an ONNX graph, with its tokenizer beside it, in a folder of its own.

    ``to`` is that folder, or the file in it, which ends with .onnx. With ``int8`` the quantised
    graph stands there too; if the run has a task with a dev part both are scored on at most
    ``examples`` of it (0: all).

    Raises:
        MissingInputError: if a package is not installed, or there is no model.
        DataError: if ONNX cannot say the model, naming the setting; if onnxruntime disagrees.
        UsageError: if the folder holds something else already.
        CannotWriteError: if the disk is full or the folder cannot be written.
    """
    path = _file(to)
    package("onnxruntime")
    model = load(run)
    graph = model.graph()

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    say("tracing the graph")
    files = {"fp32": to_onnx(graph)}
    say("checking it in onnxruntime")
    checked, notes = compared(graph, files["fp32"]), graph.left_out
    scores: Mapping[str, Mapping[str, float]] = {}
    if int8:
        say("quantising it")
        files["int8"] = quantised(files["fp32"])
        runtimes = {name: GraphSession(content) for name, content in files.items()}
        scores, more = graph_scores(run, graph, runtimes, examples)
        notes = (*notes, *more)
    _write(path, graph, model, checked, files)
    sizes = {name: len(content) for name, content in files.items()}
    outputs = {output.name: output.axes for output in graph.outputs}
    return OnnxFolder(path, graph.inputs, outputs, checked, sizes, scores, notes)


def _file(to: Path) -> Path:
    path = to if to.suffix == ".onnx" else to / NAME
    if path.absolute().parent == Path.cwd():
        raise UsageError(
            f"{to} needs a folder of its own: the tokenizer stands beside the graph",
            help=f"--onnx FOLDER/{path.name}",
        )
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(f"{path.parent} is a file", help="name a new folder")
    return path


def _write(path: Path, graph: Graph, model: Trained, checked: Check, files: Files) -> None:
    with replacing(path.parent) as fresh:
        model.save_tokenizer(fresh)
        described = json.dumps(_described(graph, model, checked), indent=1, ensure_ascii=False)
        (fresh / DESCRIPTION).write_text(described + "\n", encoding="utf-8")
        for name, content in files.items():
            target = path if name == "fp32" else int8_of(path)
            (fresh / target.name).write_bytes(content)


def _described(graph: Graph, model: Trained, checked: Check) -> dict[str, Any]:
    """Inputs, outputs and limits of a graph as plain values, for those who run it."""
    body = graph.model.encoder.node
    return {
        "schema": 1,
        "name": graph.model.resolved.name,
        "fingerprint": graph.model.resolved.fingerprint(),
        "inputs": {name: ["batch", "length"] for name in graph.inputs},
        "outputs": {
            output.name: {"axes": output.axes, "labels": output.labels} for output in graph.outputs
        },
        "longest_row": body.room,
        "pad": model.tokenizer.vocabulary.pad,
        "languages": body.languages,
        "opset": OPSET,
        "checked": {"shapes": checked.shapes, "difference": checked.difference},
        "versions": {name: version(name) for name in ("bertc", "torch", "onnxruntime")},
    }
