"""FLOPs by the rules of ELECTRA's published counter, to compare with published tables.

google-research/electra, flops_computation.py: a multiply-add is 2; backward costs as much as
forward; the token lookup is a dense product with a one-hot vector; elementwise work counts per
element as below; the vocabulary head runs on 80 of 512 positions and the head that finds replaced
tokens on all. Other objectives are not counted, and every encoder has two token types.
"""

from bertc.cost.execution import ANY
from bertc.cost.rules import cost
from bertc.ir import operation as op
from bertc.ir.network.body import Body
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.layer import LayerWidths
from bertc.ir.program.network import Network

DROPOUT, LAYER_NORM, ACTIVATION, SOFTMAX = 4, 5, 8, 5
"""FLOPs per element."""
PREDICTED, OF_POSITIONS = 80, 512
SEGMENTS = 2


def network_flops(network: Network, seq: int) -> int:
    """Forward pass of a network and of its heads over one example.

    The counter knows transformers alone: of the layers of another body the products are counted.
    """
    body, forward = network.body, body_flops(network.body, seq)
    objectives = [term.objective for term in network.terms]
    guesses = (one.masks or (one.replaces and one.fills != "replaced") for one in objectives)
    if not objectives or any(guesses):
        inner = 2 * body.hidden + 1 + ACTIVATION + LAYER_NORM
        score = 2 * body.embedding + SOFTMAX + 2
        head = inner * body.embedding + score * body.vocab_size
        forward += seq * PREDICTED * head // OF_POSITIONS
    if any(one.fills == "replaced" for one in objectives):
        forward += binary_head_flops(body, seq)
    return forward


def body_flops(body: Body, seq: int) -> int:
    """Forward pass of embeddings and layers over one example."""
    if not isinstance(body, Encoder):
        passed = body.operations(op.Call(rows=1, tokens=seq, queries=seq))
        return sum(cost(operation, ANY).flops for operation in passed.operations())
    hidden, embedding = body.hidden, body.embedding
    lookup = 2 * embedding * body.vocab_size + 2 * embedding * (seq + SEGMENTS)
    after = 2 * embedding + (LAYER_NORM + DROPOUT) * embedding
    project = 2 * hidden * embedding + hidden if embedding != hidden else 0
    layers = sum(_layer(body, widths, seq) for widths in body.layers)
    return seq * (lookup + after + project + layers)


def binary_head_flops(encoder: Body, seq: int) -> int:
    """Forward pass of a two-class head on every token, and of classification."""
    hidden = encoder.hidden
    return seq * (2 * hidden * hidden + hidden + ACTIVATION * hidden + 2 * hidden)


def _layer(encoder: Encoder, widths: LayerWidths, seq: int) -> int:
    """Forward FLOPs per token."""
    hidden, inner, heads = encoder.hidden, widths.ffn, widths.heads
    width = heads * widths.head_dim
    attention = (
        3 * (2 * hidden * width + width)  # queries, keys, values
        + 2 * width * seq  # scores
        + (1 + SOFTMAX + DROPOUT) * seq * heads  # their scale, softmax and dropout
        + 2 * width * seq  # weighted average
        + 2 * width * hidden + hidden  # output map
        + (DROPOUT + 1) * hidden  # dropout and residual
        + LAYER_NORM  # as published: the factor ``hidden`` is missing here, and only here
    )  # fmt: skip
    ffn = (
        2 * hidden * inner + inner + ACTIVATION * inner
        + 2 * inner * hidden + hidden
        + (DROPOUT + 1 + LAYER_NORM) * hidden
    )  # fmt: skip
    return attention + ffn
