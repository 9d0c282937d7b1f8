"""Forward passes of a program: states and scores of its heads, and a pass as it is recorded."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast
from unittest.mock import patch

import torch
from torch import Tensor

from bertc.ir.learning import Objective, Task
from bertc.ir.network.body_node import Wanted
from bertc.ir.program import MAIN, Resolved
from bertc.ir.terms.heads import Classifier, ConditionedSpanHead
from bertc.ir.terms.node import TermNode
from bertc.ir.terms.task_head import NamedSpanHead
from bertc.ir.terms.vector_heads import SparseHead
from bertc.model import EncoderInputs, Model, Outputs, build, gather_positions
from bertc.model.heads import AdaptiveTokenHead, Detector, TokenHead
from bertc.use.graph import language_scores, scores
from bertc.use.source.classes import PARAMETERS
from bertc.use.source.recording import CallScope, Recorder, recording
from bertc.use.source.simplify import simplify
from bertc.use.source.sizes import BatchSizes


def program_outputs(model: Model, inputs: EncoderInputs) -> dict[str, Tensor]:
    """Last states (b, s, h), the pooled one (b, h), and scores by head, of all networks.

    Heads that read more than last states, or by steps, as ends of spans, have weights alone.
    """
    stage, results = model.resolved.stages[-1], dict[str, Tensor]()
    for network in model.resolved.learned:
        every = (term.objective for term in model.resolved.terms())
        terms = [term for term in every if stage.learner(term).name == network.name]
        decodes = network.body.head.decoder > 0 and any(term.states.decoded for term in terms)
        read = model.read_on(inputs, network.name, Wanted(decoded=decodes))
        if network.name == MAIN:
            results |= encoder_outputs(model, inputs, read=read)
        for term in terms:
            if (scored := _scores(model, term, read, results, inputs, network.name)) is not None:
                of_text = isinstance(term.head_node, SparseHead)
                results[term.title if of_text else term.head_name] = scored
    del results["first"]
    return results


def encoder_outputs(
    model: Model, inputs: EncoderInputs, first_b1: Tensor | None = None, read: Outputs | None = None
) -> dict[str, Tensor]:
    """Last states of the main network, those of ``first`` tokens, and the pooled one.

    In a causal network the last tokens stand for rows.
    """
    read = model.read_on(inputs) if read is None else read
    states_bsh, network = read.last, model.encoder
    if first_b1 is None and network.node.causal and inputs.attention_mask is not None:
        first_b1 = inputs.attention_mask.long().sum(1, keepdim=True) - 1
    first_b1h = states_bsh[:, :1] if first_b1 is None else gather_positions(states_bsh, first_b1)
    results = {"states": states_bsh, "first": first_b1h}
    if network.node.pooler:
        of_rows = network.node.pooled.of_rows
        results["pooled"] = network.pool(states_bsh if of_rows else first_b1h, inputs)[:, 0]
    return results


def _scores(
    model: Model,
    term: TermNode,
    read: Outputs,
    results: dict[str, Tensor],
    inputs: EncoderInputs,
    name: str,
) -> Tensor | None:
    """The scores of a term's head; None: it reads more than a row has."""
    head, states_bsh = model.heads[term.head_name], read.last
    if read.decoded is not None and term.states.decoded:
        states_bsh = read.decoded
    if isinstance(term, Task):
        beyond = isinstance(term.head_node, ConditionedSpanHead | NamedSpanHead)
        if beyond or not term.reads_last_alone:
            return None
        return scores(model, cast(Objective, term), states_bsh, results["first"], inputs)
    if isinstance(head, AdaptiveTokenHead | TokenHead):
        return language_scores(model, term.head_name, states_bsh, name)
    if isinstance(head, Detector):
        return head(states_bsh)
    labels = isinstance(term.head_node, Classifier) and "pooled" in results
    return cast(Tensor, head(results["pooled"])) if labels else None


ForwardPass = Callable[[Model, EncoderInputs, Recorder], dict[str, Tensor]]
"""A forward pass of a model, as results by name."""


def record(resolved: Resolved, forward: ForwardPass) -> tuple[CallScope, Model]:
    """A forward pass in training, of values that are computed in bf16."""
    model = build(resolved, device="meta").train().to(torch.bfloat16)
    model.compute_dtype = torch.bfloat16
    node = model.encoder.node
    decodes = any(network.body.head.decoder for network in resolved.learned)
    # Keys have a second name in a layer that a mask decoder applies to others as well.
    renamed = patch.object(EncoderInputs, "keys", lambda _, x_bqh, layer: x_bqh.view_as(x_bqh))
    keys = renamed if decodes else nullcontext()
    # Sizes of a batch that nothing else in a program has.
    numbers = {int(number) for number in re.findall(r"\d+", resolved.model_dump_json())}
    numbers.update(size for weight in model.parameters() for size in weight.shape)
    with keys, recording(model, BatchSizes(numbers, node.room or 64)) as recorder:
        shape = recorder.sizes.rows, recorder.sizes.tokens
        passed_in = {name: torch.zeros(shape, dtype=torch.long) for name in PARAMETERS}
        for name, tensor in passed_in.items():
            recorder.value(tensor, name)
        inputs = EncoderInputs(
            passed_in["token_ids"],
            passed_in["segment_ids"] if node.kinds_of_segments > 1 else None,
            passed_in["attention_mask"].bool(),
            language_ids=passed_in["language_ids"] if node.languages else None,
        )
        results = forward(model, inputs, recorder)
    recorder.scope.keys = tuple(results)
    recorder.scope.outputs = [recorder.value(tensor) for tensor in results.values()]
    simplify(recorder.scope, {path: module for module, path in recorder.paths.items()})
    return recorder.scope, model
