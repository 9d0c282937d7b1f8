"""The file of a program's own classes for transformers."""

from dataclasses import replace
from functools import partial
from string import Template

import torch
from torch import Tensor

from bertc.hub.families.config import ClsPlace
from bertc.hub.leaving.exporting import scores_next
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.model import EncoderInputs, Model
from bertc.use.graph import token_terms
from bertc.use.source.body import ATTENTION_CALL, ForwardBody
from bertc.use.source.classes import PARAMETERS, Classes, scopes_in, with_defaults
from bertc.use.source.constants import constants_of, declare_constants
from bertc.use.source.expressions import code_lines, method
from bertc.use.source.file import docstring, fixed, functions_of
from bertc.use.source.outputs import encoder_outputs, language_scores, record
from bertc.use.source.recording import CallScope, Recorder


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
    classes = Classes(scopes_in(scope), weights, constants, bases=_bases(scope))
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
        "keys": fixed()["keys"] if body.causal else "",
    }  # fmt: skip
    text = Template(fixed()["modeling"]).substitute(values)
    pieces = {
        "flash": fixed()["flash"] * plain,
        "padding": fixed()["padding"] * body.causal,
    }
    attends = Template(fixed()["layers"]).substitute(pieces)
    functions = functions_of(scope)
    written = f"{functions}{attends}\n\n{classes.text}\n\n{text}"
    maths = "import math\n\n" * ("math." in functions)
    heading = [
        docstring(resolved, ""),
        "",
        f"{maths}{fixed()['imports']}{fixed()['hub_imports']}",
    ]
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
    kind, ahead = scores_class(resolved), scores_next(resolved)
    values = {
        "Name": name,
        "kind": kind,
        "term": head,
        "head": classes.made.get(module, "nn.Module()"),  # one without weights
        "next": ", each of the one after it; the loss moves labels" if ahead else "",
        "scores": _method("scores", ["states", "**kwargs"], lines),
        "output": f"{kind.removeprefix('For')}Output",
        "moved": fixed()["moved"] if ahead else "",
    }
    return Template(fixed()["language_model"]).substitute(values)


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
    """The lines of a method with these arguments and statements."""
    if arguments[0] in PARAMETERS:
        arguments, statements = with_defaults(arguments, statements)
    return "\n".join(code_lines([method(name, arguments, statements)]))
