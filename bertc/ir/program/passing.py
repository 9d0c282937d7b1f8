"""Operations of a network's forward pass in a stage, and which of them pass gradients back."""

from dataclasses import replace
from itertools import takewhile

from bertc.ir import operation as op
from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage


def call_of(stage: Stage, network: Network, rows: int) -> op.Call:
    """The arguments of a forward pass of ``network`` over ``rows`` rows of ``stage``."""
    states, depth = stage.seq + network.query_states, network.body.depth
    return op.Call(
        rows=rows,
        tokens=stage.seq,
        queries=states if network.num_outputs is None else network.num_outputs,
        memory=network.memory,
        query_states=network.query_states,
        directions=network.directions,
        sequences=stage.texts + 1 if stage.pack else 0,
        pooled=_pooled(stage, network),
        decoded=network.outputs(stage.seq)[1],
        layers=network.wanted.whole_layers(depth),
        projects=network.wanted.projects_next(depth),
    )


def passed_by(stage: Stage, network: Network, rows: int) -> op.Forward:
    """Operations of a forward pass; of frozen layers they have less of a backward pass, or none."""
    forward, frozen = network.body.operations(call_of(stage, network, rows)), stage.frozen_layers
    if frozen is None or network.role != "trained":
        return forward
    reached, layers = False, list[tuple[op.Block, ...]]()
    for layer in forward.layers:
        blocks = []
        for block in layer:
            learns = not network.body.is_below(block.owner, frozen)
            blocks.append(replace(block, operations=_asked(block.operations, learns, reached)))
            reached = reached or learns
        layers.append(tuple(blocks))
    return op.Forward(tuple(map(op.Alone, forward.embeddings)), tuple(layers), forward.last)


def _asked(found: op.Operations, learns: bool, reached: bool) -> op.Operations:
    """Operations of a block of which not all gradients are asked for.

    ``learns``: its weights have gradients; ``reached``: so has its input.
    """
    if learns and reached:
        return found
    if not (learns or reached):
        return tuple(map(op.Alone, found))
    asked = found if learns else tuple(map(_of_frozen_maps, found))
    norms = tuple(takewhile(lambda each: isinstance(each, op.Norm), found))
    # Gradients of a norm's weights need that of what the norm gives.
    if reached or (learns and any(isinstance(each, op.Norm) and each.affine for each in norms)):
        return asked
    first: list[op.Operation] = []
    for each in found[len(norms) :]:
        if not isinstance(each, op.Product) or not each.maps:
            break
        first.append(replace(each, constant=True) if learns else op.Alone(each))
    return (*asked[: len(norms)], *first, *asked[len(norms) + len(first) :])


def _of_frozen_maps(operation: op.Operation) -> op.Operation:
    if isinstance(operation, op.Product) and operation.maps:
        return replace(operation, frozen=True)
    return operation


def _pooled(stage: Stage, network: Network) -> int:
    """States of a row that go through the pooler: one of each example, or all that tasks score."""
    terms = [term.objective for term in network.terms]
    read = [each.pooled for each in terms if each.reads_pooler(network.body)]
    return (stage.texts if all(read) else stage.seq) if read else 0
