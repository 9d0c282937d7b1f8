"""The file of a program's own classes for transformers."""

from dataclasses import dataclass, replace
from functools import partial
from string import Template

import torch
from torch import Tensor

from bertc.ir.network.encoder import Encoder
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.heads import VocabularyHead
from bertc.model import EncoderInputs, Model
from bertc.use.source.body import ATTENTION_CALL, ForwardBody
from bertc.use.source.classes import PARAMETERS, Classes, scopes_in, with_defaults
from bertc.use.source.constants import constants_of, named_constants
from bertc.use.source.expressions import code_lines, method
from bertc.use.source.file import IMPORTS, docstring, functions_of
from bertc.use.source.hub_templates import ATTENTION_LAYER, HUB_IMPORTS, KEYS, LM, MODELING, PADDING
from bertc.use.source.outputs import encoder_outputs, language_scores, recorded
from bertc.use.source.recording import CallScope, Recorder

HUB_NAMES = {
    "attention_mask": "attention_mask",
    "segment_ids": "token_type_ids",
    "language_ids": "langs",
}
"""Arguments of transformers by those of a program."""


@dataclass(frozen=True)
class TokenScores:
    """The head of a language model: its class for transformers, and its term."""

    kind: str
    term: str


def head_of_tokens(resolved: Resolved) -> TokenScores | None:
    """The head of the last stage that scores tokens of rows as they are, if there is one."""
    stage, causal = resolved.stages[-1], resolved.encoder.causal
    for term in resolved.terms():
        node = term.objective
        reads = stage.learner(node).name == MAIN and (node.order == "forward") == causal
        if reads and isinstance(node.head_node, VocabularyHead) and node.order != "permuted":
            return TokenScores("ForCausalLM" if causal else "ForMaskedLM", node.head_name)
    return None


def modeling_source(resolved: Resolved, name: str, cls_last: bool) -> str:
    """The file of classes for transformers, whose names begin with ``name``."""
    head, body = head_of_tokens(resolved), resolved.encoder
    assert isinstance(body, Encoder), "other bodies are refused"
    scope, model = recorded(resolved, partial(_states, cls_last))
    constants = replace(constants_of(resolved), hub=True)
    weights = {weight.name: weight for weight in model_weights(resolved)}
    classes = Classes(scopes_in(scope), weights, constants, layers=_bases(scope))
    classes.add_part(model.encoder, MAIN)
    reading = ForwardBody(scope, classes.containers, constants)
    statements = reading.statements()
    names = [name for name in PARAMETERS if name in reading.names.values()]
    assert names[0] == "token_ids"
    values = {
        "Name": name,
        "type": name.lower(),
        "hidden": body.hidden,
        "layers": body.depth,
        "heads": body.layers[0].heads,
        "room": body.room or max(stage.seq for stage in resolved.stages),
        "dropout": body.dropout.hidden,
        "std": getattr(body.initializer, "std", 0.02),
        "encoder": classes.made[model.encoder],
        "read": _method("read", names, statements),
        "passed": "".join(f", {HUB_NAMES[name]}" for name in names[1:]),
        "pooled_width": body.pooled.width if body.pooler else body.hidden,
        "lm": "",
        "keys": KEYS if body.causal else "",
    }
    if head:
        values["lm"] = _language_model(resolved, head, classes, name)
    text = Template(MODELING).substitute(values)
    written = f"{classes.text}\n\n{text}"
    functions = functions_of(scope)
    heading = [docstring(resolved, ""), "", *(["import math", ""] if "math." in functions else [])]
    lines = [*heading, IMPORTS.rstrip(), HUB_IMPORTS, *named_constants(constants, written), ""]
    attends = ATTENTION_LAYER.replace("$padding", PADDING if body.causal else "")
    return "\n".join([*lines, f"{functions}{attends}\n\n{written}"])


def _states(cls_last: bool, model: Model, inputs: EncoderInputs, _: Recorder) -> dict[str, Tensor]:
    """Last states, and the pooled one; that of the first token where there is no pooler."""
    assert inputs.attention_mask is not None, "it is always one of the inputs"
    # The first of the real tokens, or the last, with padding on either side.
    real_bs = inputs.attention_mask.long()
    results = encoder_outputs(
        model, inputs, (real_bs.cumsum(1) if cls_last else real_bs).argmax(1, keepdim=True)
    )
    first = results.pop("first")
    return {"pooled": first[:, 0], **results}


def _language_model(resolved: Resolved, head: TokenScores, classes: Classes, name: str) -> str:
    """The class of a language model; its scores are recorded from states alone."""

    def scored(model: Model, inputs: EncoderInputs, recorder: Recorder) -> dict[str, Tensor]:
        b, s = inputs.token_ids.shape
        states_bsh = torch.zeros(b, s, resolved.encoder.hidden, dtype=torch.bfloat16)
        recorder.value(states_bsh, "states")
        return {"logits": language_scores(model, head.term, states_bsh)}

    scope, model = recorded(resolved, scored)
    classes.scopes |= scopes_in(scope)
    module = model.heads[head.term]
    classes.add_part(module, f"heads.{head.term}")
    classes.containers["heads"] = "dict"
    scope.keys = ()
    scoring = ForwardBody(scope, classes.containers, classes.constants)
    lines = _method("scores", ["states", "**kwargs"], scoring.statements())
    causal = head.kind == "ForCausalLM"
    values = {
        "Name": name,
        "kind": head.kind,
        "term": head.term,
        "head": classes.made.get(module, "nn.Module()"),  # one without weights
        "scores": lines.replace("self.encoder.", "self.model.encoder."),
        "output": "CausalLMOutput" if causal else "MaskedLMOutput",
    }
    return Template(LM).substitute(values)


def _bases(scope: CallScope) -> dict[str, str]:
    """Base classes of the parts of layers, by their paths."""
    parts = [c.body for s in scopes_in(scope).values() for c in s.calls if c.segment and c.body]
    attends = {p.path for p in parts if any(call.function == ATTENTION_CALL for call in p.calls)}
    return {
        part.path: "AttentionLayer" if part.path in attends else "GradientCheckpointingLayer"
        for part in parts
    }


def _method(name: str, arguments: list[str], statements: list[str]) -> str:
    """The lines of a method with these arguments and statements."""
    if arguments[0] in PARAMETERS:
        arguments, statements = with_defaults(arguments, statements)
    return "\n".join(code_lines([method(name, arguments, statements)], 4))
