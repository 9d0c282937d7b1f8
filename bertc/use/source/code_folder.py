"""``bertc export --code``: a folder that AutoModel loads, with the program's own classes in it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, listed
from bertc.hub.families.config import ClsPlace, Tokens, place_of_cls
from bertc.hub.families.family import ANSWERS
from bertc.hub.folders import replacing
from bertc.hub.keys import parts_of
from bertc.hub.leaving import exporting
from bertc.hub.leaving.target import beyond_last, settings_of
from bertc.hub.networks import alone, tensors_alone
from bertc.hub.tensors import write_tensors
from bertc.ir.learning import Embed, Objective, Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.table import AdaptiveTable
from bertc.ir.program import MAIN, Resolved, model_weights
from bertc.ir.terms.heads import Classifier
from bertc.model import EncoderInputs, Model, build
from bertc.use.graph import LAST_STATE, POOLED_STATE, Graph, language_scores, token_terms
from bertc.use.source import checking
from bertc.use.source.body import ATTENTION_CALL, ForwardBody
from bertc.use.source.classes import PARAMETERS, Classes, scopes_in, with_defaults
from bertc.use.source.expressions import code_lines, constants_of, declare_constants, method
from bertc.use.source.file import docstring, forms, functions_of, own_source
from bertc.use.source.outputs import encoder_outputs, record
from bertc.use.source.recording import CallScope, Recorder


def export_code(
    resolved: Resolved, tensors: Mapping[str, Tensor], vocabulary: Tokens, folder: Path
) -> exporting.Exported:
    """Write a folder with the program's own classes, which ``trust_remote_code=True`` loads."""
    program, main = alone(resolved), tensors_alone(resolved, tensors)
    _refuse_unsayable(program)
    name = "".join(part.title() for part in re.findall("[a-zA-Z0-9]+", program.name)) or "Encoder"
    name = name if name[0].isalpha() else f"Encoder{name}"
    kind, head, placed = _placed(program, main)
    left = {key: tensor for key, tensor in tensors.items() if key not in placed}
    ready = {new: main[key] for key, new in placed.items()}
    cls = place_of_cls(vocabulary, resolved.encoder.causal)
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
        if left:
            write_tensors(fresh / exporting.BESIDE, left)
        exporting.save_tokenizer(vocabulary, fresh, program, always_cut=True)
    way = "load it with trust_remote_code=True, in transformers 4.51 or later"
    notes = [f"its classes are in {file}.py: {way}"]
    if left:
        parts = sorted({".".join(key.split(".")[:2]) for key in left})
        notes.append(f"{listed(parts)}: written to {exporting.BESIDE}, for bertc alone")
    notes += exporting.notes_on_reading(program)
    loads = f"AutoModel{kind.removeprefix('Model')}"
    return exporting.Exported(folder, exporting.CODE, loads, tuple(notes))


def _refuse_unsayable(resolved: Resolved) -> None:
    body = resolved.encoder
    reasons = {
        f"body={body.body_kind}": not isinstance(body, Encoder),
        "head=transform(decoder)": body.head.decoder > 0,
        "languages": bool(body.languages),
        "table=adaptive": isinstance(body.table, AdaptiveTable),
    }
    for what in (reason for reason, holds in reasons.items() if holds):
        message = f"{what} stands in the way: no class of transformers calls such a network"
        raise DataError(message, help="bertc build SPEC -o FILE.py writes it as a file of PyTorch")
    for task in resolved.stages[-1].tasks:
        if isinstance(task, Embed) and task.is_sparse:
            message = "pooling=sparse stands in the way: its classes score tokens, and not texts"
            raise DataError(message, help="without --code, for SparseEncoder, or pooling=mean")
        if beyond := beyond_last(task):
            raise DataError(str(beyond), help=beyond.way_out)


def _check(kind: Any, graph: Graph, ready: Mapping[str, Tensor]) -> None:
    """Compare the class that is written, with its weights, with bertc's modules."""
    labels, body = len(ready.get("classifier.weight", ())) or 2, graph.model.encoder.node
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
        outputs = network(**given, output_hidden_states=True)
        results = {LAST_STATE: real(outputs.hidden_states[-1])}
        if "start_logits" in outputs:
            outputs["logits"] = torch.stack((outputs.start_logits, outputs.end_logits), -1)
        if graph.pooled and "pooler_output" in outputs:
            results[POOLED_STATE] = outputs.pooler_output.flatten()
        return results | ({graph.outputs[-1].name: real(outputs.logits)} if graph.heads else {})

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


def scores_class(resolved: Resolved) -> str:
    """The end of the name of the class of a language model."""
    return "ForCausalLM" if resolved.encoder.causal else "ForMaskedLM"


def modeling_source(resolved: Resolved, name: str, cls: ClsPlace) -> str:
    """The file of classes for transformers, whose names begin with ``name``."""
    scored, body = next(token_terms(resolved), None), resolved.encoder
    assert isinstance(body, Encoder), "other bodies are refused"
    scope, model = record(resolved, partial(_states, cls))
    constants = replace(constants_of(resolved), hub=True)
    weights = {weight.name: weight for weight in model_weights(resolved)}
    terms = {*model.heads.children()}  # no folder has a term of the user's
    imports, parts, reserved = own_source(x for x in model.modules() if x not in terms)
    scopes, bases = scopes_in(scope), _bases(scope)
    classes = Classes(scopes, weights, constants, bases=bases, reserved=reserved)
    classes.add_part(model.encoder, MAIN)
    reading = ForwardBody(scope, classes.containers, constants)
    statements = reading.statements()
    names = [name for name in PARAMETERS if name in reading.names.values()]
    assert names[0] == "token_ids"
    plain = _is_plain(scope)
    values = {
        "Name": name, "type": name.lower(), "hidden": body.hidden, "layers": body.depth,
        "heads": body.layers[0].heads,
        "room": body.room or max(stage.seq for stage in resolved.stages),
        "dropout": body.dropout.hidden, "std": getattr(body.initializer, "std", 0.02),
        "flashes": "\n    _supports_flash_attn = _supports_flash_attn_2 = True" if plain else "",
        "encoder": classes.made[model.encoder], "read": _method("read", names, statements),
        "passed": ", ".join(["", *names[1:]]).replace("segment_ids", "token_type_ids"),
        "pooled_width": body.pooled.width if body.pooler else body.hidden,
        "lm": _language_model(resolved, scored.head_name, classes, name) if scored else "",
        "keys": forms()["keys"] if body.causal else "",
        "biased": ", not self.pools" if body.causal else "",
    }  # fmt: skip
    text = Template(forms()["modeling"]).substitute(values)
    pieces = {"flash": forms()["flash"] * plain, "padding": forms()["padding"] * body.causal}
    attends = Template(forms()["layers"]).substitute(pieces)
    functions = functions_of(scope)
    written = f"{functions}{attends}{parts}\n\n{classes.text}\n\n{text}"
    modules = ["import math"] * ("math." in functions) + imports
    maths = "".join(f"{line}\n" for line in modules) + "\n" * bool(modules)
    heading = [docstring(resolved, ""), "", f"{maths}{forms()['imports']}{forms()['hub_imports']}"]
    return "\n".join([*heading, *declare_constants(constants, written), "", written])


def _is_plain(scope: CallScope) -> bool:
    """Does every query attend to all tokens of its row, but for padding and later ones?"""
    calls = [call for inner in scopes_in(scope).values() for call in inner.calls]
    attends = [call for call in calls if call.function == ATTENTION_CALL]
    masks = [(*call.args, call.kwargs.get("attn_mask"))[3] for call in attends]
    tensors = [mask.tensor for mask in masks if mask is not None]
    plain = (x.dtype == torch.bool and x.shape[1:3] == (1, 1) for x in tensors)
    return bool(attends) and all(plain)


def _states(cls: ClsPlace, model: Model, inputs: EncoderInputs, _: Recorder) -> dict[str, Tensor]:
    """Last states, and the pooled one; that of the first token where there is no pooler."""
    assert inputs.attention_mask is not None, "it is always one of the inputs"
    # The first of the real tokens, or the last, with padding on either side.
    real_bs = inputs.attention_mask.long()
    results = encoder_outputs(
        model, inputs, (real_bs.cumsum(1) if cls == "last" else real_bs).argmax(1, keepdim=True)
    )
    first = results.pop("first")
    return {"pooled": first[:, 0], **results}


def _language_model(resolved: Resolved, head: str, classes: Classes, name: str) -> str:
    """The class of a language model; its scores are recorded from states alone."""

    def scored(model: Model, inputs: EncoderInputs, recorder: Recorder) -> dict[str, Tensor]:
        b, s = inputs.token_ids.shape
        states_bsh = torch.zeros(b, s, resolved.encoder.hidden, dtype=torch.bfloat16)
        recorder.value(states_bsh, "states")
        return {"logits": language_scores(model, head, states_bsh)}

    scope, model = record(resolved, scored)
    classes.scopes |= scopes_in(scope)
    module = model.heads[head]
    classes.add_part(module, f"heads.{head}")
    classes.containers["heads"] = "dict"
    scope.keys = ()
    scoring = ForwardBody(scope, classes.containers, classes.constants)
    lines = [line.replace("self.encoder.", "self.model.encoder.") for line in scoring.statements()]
    kind, ahead = scores_class(resolved), exporting.scores_next(resolved)
    values = {
        "Name": name, "kind": kind, "term": head,
        "head": classes.made.get(module, "nn.Module()"),  # one without weights
        "next": ", each of the one after it; the loss moves labels" if ahead else "",
        "scores": _method("scores", ["states", "**kwargs"], lines),
        "output": f"{kind.removeprefix('For')}Output", "moved": forms()["moved"] * ahead,
    }  # fmt: skip
    return Template(forms()["language_model"]).substitute(values)


def _bases(scope: CallScope) -> dict[str, str]:
    """Base classes of what attends, and of parts of layers with weights, by their paths."""
    scopes = scopes_in(scope)
    called = [c.body for s in scopes.values() for c in s.calls if c.segment and c.body]
    parts = {part.path for part in called if any(True for _ in part.module.parameters())}
    calls = {path: {call.function for call in inner.calls} for path, inner in scopes.items()}
    attends = [path for path, functions in calls.items() if ATTENTION_CALL in functions]
    layer = "GradientCheckpointingLayer"
    bases = dict.fromkeys(attends, "AttentionLayer, nn.Module") | dict.fromkeys(parts, layer)
    return bases | {path: f"AttentionLayer, {layer}" for path in attends if path in parts}


def _method(name: str, arguments: list[str], statements: list[str]) -> str:
    if arguments[0] in PARAMETERS:
        arguments, statements = with_defaults(arguments, statements)
    return "\n".join(code_lines([method(name, arguments, statements)]))
