"""Targets of a verification: runs, folders of transformers, ONNX graphs, commands.

A command reads texts on standard input, and writes what it computes of them. A request is a JSON
object on a line: ``text``, ``pair`` if there are two, ``ids`` and ``segments`` for a program
without a tokenizer, ``positions``, ``columns`` of the scores of a vocabulary, and ``batch`` where
rows are to be read together. For each, in their order, it writes an object: ``tokens``, the ids it
made; ``embeddings``, vectors at the positions; ``layers``, a list of such lists; ``pooled``, one
vector; ``scores``, by head or of the only one. Any may be absent.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertc import DataError, MissingInputError, Trained, load
from bertc.lab.onnx.folder import INT8, NAME
from bertc.lab.onnx.runtime import GraphSession
from bertc.lab.proof.proof import EMBEDDINGS, POOLED, TOKENS, Answer, Proof, Row, Stage
from bertc.lab_api import divide_by_temperatures, escaped, require_permission, several

SHOWN = 80


def request(proof: Proof, row: Row) -> dict[str, Any]:
    """The request for a row."""
    columns = {s.output: s.columns for s in proof.scores if len(s.columns) < s.width}
    fields = {
        "text": row.text, "pair": row.pair, "ids": row.ids, "segments": row.segments,
        "positions": row.positions, "columns": columns or None, "batch": row.batch,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def command_answers(command: str, proof: Proof) -> Iterator[Answer]:
    """Run a command once, and read its answers to all rows."""
    requests = "".join(f"{json.dumps(request(proof, row))}\n" for row in proof.rows)
    try:
        ran = subprocess.run(shlex.split(command), input=requests.encode(), stdout=subprocess.PIPE)
    except (OSError, ValueError) as error:
        help = "TARGET is a folder, an ONNX graph, or a command in quotes"
        raise MissingInputError(f"{command} cannot be started: {error}", help=help) from None
    lines = ran.stdout.splitlines()
    if ran.returncode or len(lines) != len(proof.rows):
        ended = f"ended with {ran.returncode} after" if ran.returncode else "wrote"
        answered = f"{several(len(lines), 'line')} for {several(len(proof.rows), 'request')}"
        raise DataError(f"the command {ended} {answered}", help="a JSON object a line, and no more")
    yield from read_answers(proof, lines)


def read_answers(proof: Proof, lines: Iterable[bytes]) -> Iterator[Answer]:
    """The vectors of each row by stage, from the lines that a program wrote."""
    for number, (row, line) in enumerate(zip(proof.rows, lines, strict=True), 1):
        yield _read(proof, row, line, f"answer {number}")


def _read(proof: Proof, row: Row, line: bytes, where: str) -> Answer:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        beginning = escaped(line[:SHOWN].decode(errors="replace"))
        raise DataError(f"{where} is no JSON object: {beginning}", help="a JSON object a line")
    tokens, layers = fields.get("tokens", [*row.ids]), fields.get("layers") or []
    if tokens != [*row.ids] and isinstance(tokens, list):
        return {"tokens": tokens}  # vectors of other tokens are at other positions
    for name, values, count in (("tokens", tokens, len(row.ids)), ("layers", layers, proof.depth)):
        if not isinstance(values, list) or len(values) not in (0, count):
            raise DataError(f"{where}: {name} is no list of {count}")
    scores = fields.get("scores")
    by_head = scores if isinstance(scores, dict) else {s.output: scores for s in proof.scores[:1]}
    answer = {name: fields.get(name) for name in ("tokens", EMBEDDINGS, POOLED)}
    answer |= {f"layer {number}": vectors for number, vectors in enumerate(layers, 1)}
    answer |= {stage.name: by_head.get(stage.output) for stage in proof.scores}
    return {name: value for name, value in answer.items() if value is not None}


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


CONFIG = "config.json"


def target_answers(target: str, proof: Proof, precision: str) -> Iterator[Answer]:
    """The answers of a target to all rows of a proof."""
    path, tokens = Path(target), iter(list[list[int]]())
    graph = path / (INT8 if precision == "int8" else NAME) if path.is_dir() else path
    if graph.suffix == ".onnx" and graph.is_file():
        call = onnx_call(graph, proof)
    elif (path / CONFIG).is_file():
        call, tokens = transformers_call(path, proof, precision), transformers_ids(path, proof)
    elif path.is_dir():
        model = opened(path, calibrated=bool(proof.about["calibrated"]))
        call = Network(in_precision(model, precision))
        read = (model.tokenizer(r.text if r.pair is None else (r.text, r.pair)) for r in proof.rows)
        tokens = (row["token_ids"][0].tolist() for row in read)
    else:
        yield from command_answers(target, proof)
        return
    numbered = groupby(enumerate(proof.rows), lambda pair: pair[1].batch or -pair[0])
    batches = [[row for _, row in together] for _, together in numbered]
    outputs = outputs_of(call, batches, proof.inputs)
    for row, results, ids in zip_longest(proof.rows, outputs, tokens):
        yield by_stage(results, proof.stages, row) | ({} if ids is None else {TOKENS: ids})


def onnx_call(graph: Path, proof: Proof) -> Call:
    """A graph; outputs that optimum and sentence-transformers write have their names."""
    session = GraphSession(graph)
    if unknown := [name for name in session.inputs if name not in proof.inputs]:
        known = ", ".join(proof.inputs)
        raise DataError(f"{graph} reads {unknown[0]}, and the proof has {known}")
    vector = next((stage.output for stage in proof.stages if stage.name == POOLED), POOLED)
    names = {"pooler_output": "pooled", "sentence_embedding": vector}

    def call(inputs: Arrays) -> Arrays:
        outputs = {names.get(name, name): x for name, x in session(inputs).items()}
        return outputs | by_shape(proof, outputs.get("logits"))

    return call


def by_shape(proof: Proof, logits: Any) -> Arrays:
    """Scores without a name as those of the head that has as many of a text, or of each token."""
    shape = () if logits is None else (logits.ndim > 2, logits.shape[-1])
    fits = (s.output for s in proof.scores if (s.of_tokens, s.width) == shape)
    return {name: logits for name in [*fits][:1]}


def transformers_call(folder: Path, proof: Proof, precision: str) -> Call:
    """A network of transformers, by the class that its folder names."""
    transformers: Any = import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    config = json.loads((folder / CONFIG).read_bytes())
    name, classes = (config.get("architectures") or [""])[0], config.get("auto_map", {})
    if classes:
        require_permission(f"the class {name} of {folder}", "unread")
    auto = next((auto for auto, known in classes.items() if known.endswith(f".{name}")), name)
    loader = getattr(transformers, auto, transformers.AutoModel)
    network = loader.from_pretrained(folder, trust_remote_code=bool(classes)).eval()
    network = network.to(DTYPES.get(precision, torch.float32))
    of_choices = name.endswith("MultipleChoice")
    states = [stage.output for stage in proof.stages if stage.of_states]

    @torch.no_grad()
    def call(inputs: Arrays) -> Arrays:
        read = {n: torch.from_numpy(x) for n, x in inputs.items() if n != "language_ids"}
        if of_choices:
            read = {name: x[:, None] for name, x in read.items()}
        outputs = network(**read, output_hidden_states=True, return_dict=True)
        if len(outputs.hidden_states) != len(states):
            layers = f"{len(outputs.hidden_states) - 1} layers, and the proof {len(states) - 1}"
            raise DataError(f"{folder} has {layers}", help="name a folder of the same network")
        results = dict(zip(states, outputs.hidden_states, strict=True))
        if outputs.get("pooler_output") is not None:
            results["pooled"] = outputs.pooler_output
        logits = outputs.get("logits", outputs.get("prediction_logits"))
        if "start_logits" in outputs:
            logits = torch.stack([outputs.start_logits, outputs.end_logits], -1)
        every = results | by_shape(proof, logits)
        return {name: output.float().numpy() for name, output in every.items()}

    return call


def transformers_ids(folder: Path, proof: Proof) -> Iterator[list[int]]:
    """The ids of all rows, by the tokenizer of a folder."""
    # Permission to run its code was needed for the network.
    loader = import_module("transformers").AutoTokenizer
    tokenizer = loader.from_pretrained(folder, trust_remote_code=True)
    cut = {"truncation": True, "max_length": proof.longest} if proof.longest else {}
    for row in proof.rows:
        yield tokenizer(row.text, row.pair, **cut)["input_ids"]
