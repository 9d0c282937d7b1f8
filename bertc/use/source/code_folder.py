"""``bertc export --code``: a folder that AutoModel loads, with the program's own classes in it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, listed
from bertc.hub.families.config import Tokens, place_of_cls
from bertc.hub.families.family import ANSWERS
from bertc.hub.folders import replacing
from bertc.hub.keys import parts_of
from bertc.hub.leaving import exporting
from bertc.hub.leaving.target import beyond_last, settings_of
from bertc.hub.networks import alone, tensors_alone
from bertc.hub.tensors import write_tensors
from bertc.ir.learning.objective import Objective
from bertc.ir.learning.task import Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.table import AdaptiveTable
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.heads import Classifier
from bertc.model import build
from bertc.use.graph import LAST_STATE, POOLED_STATE, Graph, token_terms
from bertc.use.source import checking
from bertc.use.source.hub_source import modeling_source, scores_class


def export_code(
    resolved: Resolved, tensors: Mapping[str, Tensor], vocabulary: Tokens, folder: Path
) -> exporting.Exported:
    """Write a folder with the program's own classes, which ``trust_remote_code=True`` loads."""
    program, main = alone(resolved), tensors_alone(resolved, tensors)
    _refuse_unsayable(program)
    name = "".join(part.title() for part in re.findall("[a-zA-Z0-9]+", program.name)) or "Encoder"
    name = name if name[0].isalpha() else f"Encoder{name}"
    kind, head, placed = _placed(program, main)
    beside = {key: tensor for key, tensor in tensors.items() if key not in placed}
    ready = {new: main[key] for key, new in placed.items()}
    cls = place_of_cls(vocabulary)
    source = modeling_source(program, name, cls)
    model = build(program, device="meta").eval()
    model.load_state_dict(main, assign=True, strict=False)
    model.untrained = parts_of(model.state_dict()) - parts_of(main)
    graph = Graph(model, (head,) if head else (), cls, states=True)
    _check(checking.run_source(source)[f"{name}{kind}"], graph, ready)
    file = f"modeling_{name.lower()}"
    config = _config(program, vocabulary, name, kind, head)
    with replacing(folder) as fresh:
        (fresh / f"{file}.py").write_text(source, encoding="utf-8")
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        write_tensors(fresh / "model.safetensors", ready)
        if beside:
            write_tensors(fresh / exporting.BESIDE, beside)
        exporting.save_tokenizer(vocabulary, fresh, program, always_cut=True)
    notes = [
        f"its classes are in {file}.py: load it with trust_remote_code=True, in transformers 4.51 "
        "or later"
    ]
    if beside:
        parts = sorted({".".join(key.split(".")[:2]) for key in beside})
        notes.append(f"{listed(parts)}: written to {exporting.BESIDE}, for bertc alone")
    notes += exporting.notes_on_reading(program)
    return exporting.Exported(
        folder, exporting.CODE, f"AutoModel{kind.removeprefix('Model')}", tuple(notes)
    )


def _refuse_unsayable(resolved: Resolved) -> None:
    """Refuse networks that the classes cannot hold."""
    body = resolved.encoder
    reasons = {
        f"body={body.body_kind}": not isinstance(body, Encoder),
        "head=transform(decoder)": body.head.decoder > 0,
        "languages": bool(body.languages),
        "table=adaptive": isinstance(body.table, AdaptiveTable),
    }
    for what in (reason for reason, holds in reasons.items() if holds):
        raise DataError(
            f"{what} stands in the way: no class of transformers calls such a network",
            help="bertc build SPEC -o FILE.py writes it as a file of PyTorch",
        )
    for task in resolved.stages[-1].tasks:
        if beyond := beyond_last(task):
            raise DataError(str(beyond), help=beyond.way_out)


def _check(kind: Any, graph: Graph, ready: Mapping[str, Tensor]) -> None:
    """Compare the class that is written, with its weights, with bertc's modules."""
    labels, body = len(ready.get("classifier.bias", ())) or 2, graph.model.encoder.node
    config = kind.config_class(vocab_size=body.vocab_size, num_labels=labels)
    network = kind(config).eval()
    base = "" if hasattr(network, "model") else "model."
    weights = {key.removeprefix(base): tensor for key, tensor in ready.items()}
    # The pooler is left out where a class does not read it.
    network.load_state_dict({key: weights[key] for key in network.state_dict() if key in weights})
    drawn = checking.random_inputs(graph.model, *checking.SHAPES[-1])
    drawn |= {"input_ids": drawn["token_ids"], "token_type_ids": drawn["segment_ids"]}
    rows, real_bs = {name: drawn[name] for name in graph.inputs}, drawn["attention_mask"].bool()

    def real(tensor: Tensor) -> Tensor:  # states of padding are nobody's
        return tensor[real_bs] if tensor.shape[:2] == real_bs.shape else tensor.flatten()

    def written() -> dict[str, Tensor]:
        chooses = kind.__name__.endswith("MultipleChoice")
        given = {name: x[:, None] for name, x in rows.items()} if chooses else rows
        shown = network(**given, output_hidden_states=True)
        results = {LAST_STATE: real(shown.hidden_states[-1])}
        if "start_logits" in shown:
            shown["logits"] = torch.stack((shown.start_logits, shown.end_logits), -1)
        if graph.pooled and "pooler_output" in shown:
            results[POOLED_STATE] = shown.pooler_output.flatten()
        return results | ({graph.outputs[-1].name: real(shown.logits)} if graph.heads else {})

    def expected() -> dict[str, Tensor]:
        pairs = zip(graph.outputs, graph(**rows), strict=True)
        return {output.name: real(tensor) for output, tensor in pairs}

    for result, apart in checking.name_differences(written, expected, {}):
        checking.refuse_difference(result, apart)


def _placed(
    resolved: Resolved, tensors: Mapping[str, Tensor]
) -> tuple[str, Objective | None, dict[str, str]]:
    """The class that holds the most of a model, its head, and its weights' names by bertc's."""
    placed = {name: f"model.{name}" for name in tensors if name.startswith("encoder.")}
    tasks, scored = resolved.stages[-1].tasks, next(token_terms(resolved), None)
    if len(tasks) == 1 and isinstance(tasks[0].head_node, Classifier):
        task, head = tasks[0].judged, f"heads.{tasks[0].head_name}."
        if kind := next((k for k, kinds in ANSWERS.items() if task.answer.kind in kinds), ""):
            names = [name for name in tensors if name in (f"{head}weight", f"{head}bias")]
            return kind, task, placed | {n: f"classifier.{n.removeprefix(head)}" for n in names}
    if scored:
        of_head = [name for name in tensors if name.startswith(f"heads.{scored.head_name}.")]
        if of_head or not tasks:
            return scores_class(resolved), scored, placed | {name: name for name in of_head}
    return "Model", None, placed


def _config(
    resolved: Resolved, vocabulary: Tokens, name: str, kind: str, head: Objective | None
) -> dict[str, Any]:
    """The configuration: sizes, classes and labels."""
    file = f"modeling_{name.lower()}"
    kinds = ("Model", *([scores_class(resolved)] if any(token_terms(resolved)) else []), *ANSWERS)
    classes = {f"AutoModel{k.removeprefix('Model')}": f"{file}.{name}{k}" for k in kinds}
    return {
        "model_type": f"bertc_{name.lower()}", "architectures": [f"{name}{kind}"],
        "auto_map": {"AutoConfig": f"{file}.{name}Config", **classes},
        "vocab_size": resolved.encoder.vocab_size, "pad_token_id": vocabulary.pad,
        "transformers_version": exporting.TRANSFORMERS,
        **(settings_of(head) if isinstance(head, Task) else {}),
    }  # fmt: skip
