"""Operations of a network's forward pass in a stage, and which of them pass gradients back."""

from dataclasses import replace
from itertools import takewhile

from bertc.ir import operation as op
from bertc.ir.methods.method import Frozen
from bertc.ir.network.body_node import is_below
from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage

TOKEN_TABLE = "embeddings.token.weight"
"""The table that heads over the vocabulary read, unless they have one of their own."""


def call_of(stage: Stage, network: Network, rows: int) -> op.Call:
    """The arguments of a forward pass of ``network`` over ``rows`` rows of ``stage``."""
    states, depth = stage.seq + network.query_states, network.body.depth
    terms = [term.objective.states for term in network.terms]
    # Of each example one state goes through the pooler, or all that tasks score.
    read = [states.pooled for states in terms if states.use_pooler(network.body)]
    return op.Call(
        rows=rows, tokens=stage.seq,
        queries=states if network.num_outputs is None else network.num_outputs,
        memory=network.memory, query_states=network.query_states, directions=network.directions,
        sequences=stage.texts + 1 if stage.pack else 0,
        pooled=(stage.texts if all(read) else stage.seq) if read else 0,
        decoded=network.outputs(stage.seq)[1], layers=network.wanted.whole_layers(depth),
        projects=network.wanted.projects_next(depth),
    )  # fmt: skip


def find_frozen_part(stage: Stage) -> Frozen:
    """The part of its main network that a stage leaves as it is."""
    parts = (method.freezes(stage.layers) for method in stage.methods)
    return next((part for part in parts if part != Frozen()), Frozen())


def is_frozen(stage: Stage, network: Network, weight: str) -> bool:
    """True for a weight of a network's body that a stage leaves as it is."""
    return network.role == "trained" and find_frozen_part(stage).includes(weight)


def heads_of(stage: Stage, network: Network, examples: int) -> op.Operations:
    """Operations of its heads on ``examples`` examples; none pass gradients to a frozen network."""
    heads, head = network.heads_apart(examples), network.body.head
    if head.tied and (adapts(network) or is_frozen(stage, network, TOKEN_TABLE)):
        heads = tuple(map(_of_frozen_scores, heads))
    reached = network.role != "trained" or find_frozen_part(stage).layers is None
    if not (reached or forward_pass(stage, network, 1)[1]):
        heads = tuple(map(_of_constants, heads))
    return tuple(operation for operations in heads for operation in operations)


def forward_pass(stage: Stage, network: Network, rows: int) -> tuple[op.Forward, bool]:
    """Operations of a forward pass, and whether its outputs have a gradient.

    Those of frozen layers have less of a backward pass, or none.
    """
    call, frozen = call_of(stage, network, rows), find_frozen_part(stage).layers
    forward = network.body.operations(call)
    if adapts(network):
        return _adapt_pass(forward), True
    if frozen is None or network.role != "trained":
        return forward, True
    reached, below, layers = False, False, list[tuple[op.Block, ...]]()
    decoder = len(forward.layers) - 2 * (call.decoded > 0)
    for number, layer in enumerate(forward.layers):
        blocks = []
        if number == decoder:  # its queries are states below plus positions that learn
            reached, below = True, reached
        for block in layer:
            learns = not is_below(block.owner, frozen)
            operations = (
                tuple(map(_of_frozen_tables, block.operations)) if frozen else block.operations
            )
            operations = _limit(operations, learns, reached)
            if number >= decoder and not below and block.part == "attention":
                operations = _of_keys_below(operations, learns)
            blocks.append(block._replace(operations=operations))
            reached = reached or learns
        layers.append(tuple(blocks))
    last = forward.last
    if not reached:
        last, reached = _after(last, norm_learns=not find_frozen_part(stage).whole)
    return op.Forward(tuple(map(op.Alone, forward.embeddings)), tuple(layers), last), reached


def adapts(network: Network) -> bool:
    """True if pairs next to its frozen maps are trained."""
    return network.role == "trained" and network.body.merged is not network.body


def _adapt_pass(forward: op.Forward) -> op.Forward:
    """A forward pass in which pairs alone learn, below the lowest of which there is no backward."""
    reached, layers = False, list[tuple[op.Block, ...]]()
    for layer in forward.layers:
        blocks = []
        for block in layer:
            products = [o for o in block.operations if isinstance(o, op.Product)]
            pairs = [product for product in products if product.adapts]
            tables, output = any(pair.of_weights for pair in pairs), products[-1].adapts
            operations, before = list[op.Operation](), reached
            for o in block.operations:
                of_input = isinstance(o, op.Product) and {*o.names} & {"query", "key", "value"}
                operations.append(_adapt(o, before if of_input else reached, tables, output))
                reached = reached or (isinstance(o, op.Product) and o.adapts)
            blocks.append(block._replace(operations=tuple(operations)))
        layers.append(tuple(blocks))
    return op.Forward(tuple(map(op.Alone, forward.embeddings)), tuple(layers), forward.last)


def _adapt(operation: op.Operation, reached: bool, tables: bool, output: bool) -> op.Operation:
    """An operation of a frozen layer.

    ``tables``: maps of what all layers use have pairs; ``output``: the last map has one.
    """
    match operation:
        case op.Product(adapts=True):
            return operation if reached else replace(operation, constant=True)
        case op.Product(maps=maps, constant=constant, of_weights=of_weights):
            if not reached or (maps and (constant or of_weights)):
                return op.Alone(operation)
            if maps:
                return replace(operation, frozen=True, keeps_rows=False)
            constant = of_weights and not tables
            return replace(operation, constant=constant, keeps_rows=not constant)
        case op.Attention() if reached:
            return replace(operation, keeps_output=not output)
        case _:
            return operation if reached else op.Alone(operation)


def _of_frozen_scores(operations: op.Operations) -> op.Operations:
    """Operations of heads whose scores are products with a token table that does not learn."""
    following = (*operations[1:], None)
    return tuple(
        replace(operation, frozen=True)
        if isinstance(operation, op.Product) and isinstance(after, op.VocabularyLoss)
        else operation
        for operation, after in zip(operations, following, strict=True)
    )


def _after(operations: op.Operations, *, norm_learns: bool) -> tuple[op.Operations, bool]:
    """Operations after frozen layers, and whether anything learns in them: a norm or the pooler."""
    adjusted, reached = list[op.Operation](), False
    for operation in operations:
        norm = norm_learns and isinstance(operation, op.Norm) and operation.affine
        adjusted.append(operation if reached or norm else _of_constant(operation))
        reached = reached or norm or isinstance(operation, op.Product)
    return tuple(adjusted), reached


def _of_constants(operations: op.Operations) -> op.Operations:
    """Operations of a head on states that have no gradient, up to where its own weights act."""
    moved = tuple(takewhile(_moves, operations))
    return (*map(_of_constant, moved), *operations[len(moved) :])


def _of_constant(operation: op.Operation) -> op.Operation:
    """An operation on states that have no gradient, which a map needs for its weights alone."""
    if isinstance(operation, op.Product):
        return replace(operation, constant=True)
    return op.Alone(operation)


def _moves(operation: op.Operation) -> bool:
    """True for a map of states, or what has no weights before it."""
    if isinstance(operation, op.Product):
        return operation.maps > 0
    if isinstance(operation, op.Pointwise):
        return operation.function == "add"
    return isinstance(operation, op.Dropout | op.Copy)


def _limit(operations: op.Operations, learns: bool, reached: bool) -> op.Operations:
    """Operations of a block whose weights have gradients (``learns``), or input (``reached``)."""
    if reached:
        return operations if learns else tuple(map(_of_frozen_maps, operations))
    if not learns:
        return tuple(map(op.Alone, operations))
    norms = tuple(takewhile(lambda o: isinstance(o, op.Norm), operations))
    # Gradients of a norm's weights need that of what the norm gives.
    if any(isinstance(norm, op.Norm) and norm.affine for norm in norms):
        return operations
    rest = operations[len(norms) :]
    first = tuple(takewhile(lambda o: isinstance(o, op.Product) and o.maps > 0, rest))
    return (*norms, *map(_of_constant, first), *rest[len(first) :])


def _of_keys_below(operations: op.Operations, learns: bool) -> op.Operations:
    """Attention of a mask decoder whose keys and values are of states without a gradient."""
    norms = takewhile(lambda operation: isinstance(operation, op.Norm), operations)
    if learns and any(isinstance(operation, op.Norm) and operation.affine for operation in norms):
        return operations
    return tuple(
        (replace(operation, constant=True) if learns else op.Alone(operation))
        if isinstance(operation, op.Product) and operation.maps == 2
        else operation
        for operation in operations
    )


def _of_frozen_tables(operation: op.Operation) -> op.Operation:
    """The same where weights that all layers use do not learn."""
    if isinstance(operation, op.Product) and operation.of_weights and operation.maps:
        return replace(operation, constant=True)
    return operation


def _of_frozen_maps(operation: op.Operation) -> op.Operation:
    if not isinstance(operation, op.Product):
        return operation
    if operation.maps:
        return replace(operation, frozen=True)
    return replace(operation, constant=operation.of_weights)
