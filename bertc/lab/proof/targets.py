"""Targets of a verification: runs, folders of transformers, ONNX graphs, commands."""

import json
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import torch

from bertc import DataError
from bertc.lab.onnx.folder import INT8, NAME
from bertc.lab.onnx.runtime import GraphSession
from bertc.lab.proof.command import command_answers
from bertc.lab.proof.network import (
    DTYPES,
    Arrays,
    Call,
    Network,
    by_stage,
    in_precision,
    opened,
    outputs_of,
)
from bertc.lab.proof.proof import POOLED, TOKENS, Answer, Proof
from bertc.lab_api import require_permission

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
