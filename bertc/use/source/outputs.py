"""Results of the file of a program: states, and the scores of its heads."""

from contextlib import nullcontext
from typing import cast
from unittest.mock import patch

from torch import Tensor

from bertc.ir.learning.objective import Objective
from bertc.ir.learning.task import Task
from bertc.ir.network.wanted import Wanted
from bertc.ir.program.network import MAIN
from bertc.ir.terms.heads import Classifier
from bertc.ir.terms.node import TermNode
from bertc.learn.objectives import token_logits
from bertc.model import EncoderInputs, Model, gather_positions
from bertc.model.body import Outputs
from bertc.model.heads import AdaptiveTokenHead, Detector, TokenHead
from bertc.use.graph import scores


def program_outputs(
    model: Model, inputs: EncoderInputs, *, cls_last: bool = False
) -> dict[str, Tensor]:
    """Last states (b, s, h), the pooled one (b, h), and scores by head, of all networks.

    Heads that read more than a row, such as the boundaries of spans, have weights alone.
    """
    decodes = any(network.body.head.decoder for network in model.resolved.learned)
    with patch.object(EncoderInputs, "keys", keys_of) if decodes else nullcontext():
        return _outputs(model, inputs, cls_last)


def _outputs(model: Model, inputs: EncoderInputs, cls_last: bool) -> dict[str, Tensor]:
    stage, results = model.resolved.stages[-1], dict[str, Tensor]()
    for network in model.resolved.learned:
        terms = [
            term.objective
            for term in model.resolved.terms()
            if stage.learner(term.objective).name == network.name
        ]
        decodes = network.body.head.decoder > 0 and any(term.states.decoded for term in terms)
        read = model.read_on(inputs, network.name, Wanted(decoded=decodes))
        if network.name == MAIN:
            results |= encoder_outputs(model, inputs, cls_last, read)
        for term in terms:
            if (scored := _scores(model, term, read, results, inputs, network.name)) is not None:
                results[term.head_name] = scored
    return results


def keys_of(inputs: EncoderInputs, x_bqh: Tensor, layer: int) -> Tensor:
    """Keys by a second name, for a layer that a mask decoder applies to others as well."""
    return x_bqh.view_as(x_bqh)


def encoder_outputs(
    model: Model, inputs: EncoderInputs, cls_last: bool, read: Outputs | None = None
) -> dict[str, Tensor]:
    """Last states of the main network, those of first tokens, and the pooled one."""
    read = model.read_on(inputs) if read is None else read
    states_bsh, network = read.last, model.encoder
    first_b1h = states_bsh[:, :1]
    if cls_last:
        assert inputs.attention_mask is not None, "it is always one of the inputs"
        last_b1 = inputs.attention_mask.sum(1, keepdim=True) - 1
        first_b1h = gather_positions(states_bsh, last_b1)
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
    head = model.heads[term.head_name]
    states_bsh = read.last
    if read.decoded is not None and term.states.decoded:
        states_bsh = read.decoded
    if isinstance(term, Task):
        return scores(model, cast(Objective, term), states_bsh, results["first"], inputs)
    match head:
        case AdaptiveTokenHead() | TokenHead():
            return language_scores(model, term.head_name, states_bsh, name)
        case Detector():
            scored: Tensor = head(states_bsh)
            return scored
        case _ if isinstance(term.head_node, Classifier) and "pooled" in results:
            labelled: Tensor = head(results["pooled"])
            return labelled
    return None


def language_scores(model: Model, head: str, states_bsh: Tensor, network: str = MAIN) -> Tensor:
    """Scores (b, s, v) of every token by a head; log p for an adaptive one."""
    module, body = model.heads[head], model.network(network)
    if isinstance(module, TokenHead):
        return token_logits(states_bsh, module, body)
    b, s, h = states_bsh.shape
    return token_logits(states_bsh.reshape(b * s, h), module, body).reshape(b, s, -1)
