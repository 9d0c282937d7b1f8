"""Cost rule of each operation: FLOPs, memory and memory traffic.

Bytes saved for backward are autograd's without a compiler: inputs of every product, norm and
activation, attention probabilities where no fused kernel runs, and dropout masks.
"""

from functools import lru_cache
from typing import NamedTuple

from bertc.cost.figures import FP32, Execution
from bertc.ir import operation as op
from bertc.ir.blocks import SHORT_KEYS, block_size

FLASH_BLOCK, FLASH_WIDTH = 128, 32
"""Block size in tokens, and multiple of the head width, to which FlashAttention's backward rounds
up (FlashAttention 2, flash_api.cpp)."""


class Cost(NamedTuple):
    """Cost of one operation; ``flops`` of forward, ``train_flops`` of forward and backward.

    Bytes ``kept`` live from forward to backward, ``transient`` ones during the backward of their
    block, ``block`` ones while forward computes a loss in blocks; ``copies`` are of weights, and
    ``table`` ones of a table's gradient, independent of the number of rows. ``moved`` is bytes read
    and written by forward and backward, ``elements`` the number of elements ``function`` is applied
    to, ``starts`` the number of kernels that eager torch launches.
    """

    flops: int = 0
    train_flops: int = 0
    kept: int = 0
    transient: int = 0
    copies: int = 0
    block: int = 0
    table: int = 0
    moved: int = 0
    function: str = ""
    elements: int = 0
    starts: int = 0


@lru_cache(maxsize=4096)
def cost(operation: op.Operation, how: Execution) -> Cost:
    """Cost of one operation under the given settings."""
    match operation:
        case op.Product():
            return _product(operation, how)
        case op.Attention():
            return _attention(operation, how)
        case op.Recurrence():
            return _recurrence(operation, how)
        case op.Alone(operation=done):
            plain = cost(done, how)
            return plain._replace(train_flops=plain.flops, kept=0, transient=0)
        case op.Norm():
            return _norm(operation, how)
        case op.Pointwise(function, elements, stored):
            return _pointwise(function, elements, stored, how)
        case op.Dropout(rows, width):
            elements, masks = rows * width, rows * width * how.mask_bytes
            moved = 4 * elements * how.value_bytes + 2 * masks
            return Cost(kept=masks, moved=moved, function="dropout", elements=elements, starts=2)
        case op.Copy(elements, stored):
            saved = elements * how.value_bytes * stored
            moved = 4 * elements * how.value_bytes
            return Cost(kept=saved, transient=saved, moved=moved, starts=2)
        case op.Mixture(rows=rows, width=width, outputs=outputs):
            # Each term reads and writes the sum; an output's gradient is there until its backward.
            saved, elements = rows * width * how.value_bytes, outputs * rows * width
            return Cost(
                kept=saved, transient=outputs * saved, moved=7 * outputs * saved, function="add",
                elements=elements, starts=6 * outputs,
            )  # fmt: skip
        case op.Recorded(operations, values, others):
            return _recorded([cost(o, how) for o in operations], values * how.value_bytes + others)
        case op.Lookup(rows, width, table_rows):
            # Table rows are fp32. The gradient is dense, as large as the table, and accumulated.
            elements = (rows + table_rows) * width
            moved = (5 * rows + 4 * table_rows) * width * FP32
            return Cost(moved=moved, function="lookup", elements=elements, starts=6)
        case op.VocabularyLoss(rows, vocab):
            # Scores are read and overwritten by their gradient; compiled code moves them once more.
            scores = rows * vocab
            passes = 4 if how.compiled else 2
            moved = passes * scores * how.value_bytes
            stored = scores * how.value_bytes + rows * FP32
            return Cost(kept=stored, moved=moved, function="loss", elements=scores, starts=20)
        case op.Loss(scores, stored):
            return Cost(kept=stored * FP32, moved=4 * scores * FP32, starts=20)
        case op.LossInBlocks():
            return _in_blocks(operation, how)


def _recorded(costs: list[Cost], saved: int) -> Cost:
    """The cost of operations in a row, which save bytes together."""
    names = ("flops", "train_flops", "kept", "transient", "moved", "starts")
    total = Cost(**{name: sum(getattr(cost, name) for cost in costs) for name in names})
    return total._replace(kept=total.kept + saved)


def _in_blocks(loss: op.LossInBlocks, how: Execution) -> Cost:
    """Scores of both networks and what is made of them; then gradients, one beside the last."""
    at_once = loss.at_once[how.device != "cpu"]
    width = FP32
    if loss.by_part and how.precision == "bf16":  # a CPU scatters gradients in fp32
        width = how.value_bytes + FP32 * (how.device == "cpu")
    block = min(loss.scores, max(1, at_once // loss.row) * loss.row) * width
    return Cost(
        kept=loss.kept * how.value_bytes, table=loss.table * FP32, moved=4 * loss.scores * FP32,
        block=max(round(loss.held * block), block + loss.table * FP32), starts=20,
    )  # fmt: skip


def _product(product: op.Product, how: Execution) -> Cost:
    """Matmul: 2 FLOPs per multiply-add; backward: a gradient for each factor that learns."""
    rows, inner, columns = product.rows, product.inner, product.columns
    flops = 2 * rows * inner * columns * product.times
    joined = product.maps > 1 and how.precision == "fp32" and not how.compiled
    factors = rows * inner + inner * columns + rows * columns
    passes = 3 - product.constant - product.frozen
    return Cost(
        flops=flops, train_flops=flops * passes,
        kept=rows * inner * product.times * how.value_bytes * product.keeps_rows,
        # The gradient of its input takes the place of the input, unless that was not saved.
        transient=rows * inner * how.value_bytes * (product.frozen and not product.keeps_rows),
        copies=inner * columns * FP32 * joined,
        moved=passes * factors * product.times * how.value_bytes,
        starts=10 + 2 * product.maps if product.maps else 4,
    )  # fmt: skip


def _pointwise(function: op.Function, elements: int, saved: int, how: Execution) -> Cost:
    """Elementwise: a sum has no gradients of its own, and a product of two tensors has two."""
    bytes_made, stored = elements * how.value_bytes, saved * how.value_bytes
    if function != "multiply":
        gradient = 0 if function == "add" else bytes_made
        return Cost(
            kept=stored, transient=gradient, moved=5 * bytes_made, function=function,
            elements=elements, starts=2,
        )  # fmt: skip
    if how.device == "cpu" and not how.compiled:
        return Cost(transient=2 * bytes_made, moved=2 * bytes_made)
    # A product takes as long as a sum forward, and once more for each factor backward.
    return Cost(
        kept=stored, transient=2 * bytes_made, moved=8 * bytes_made, function="add",
        elements=2 * elements, starts=3,
    )  # fmt: skip


def _norm(norm: op.Norm, how: Execution) -> Cost:
    """Norm: fused, it moves inputs and outputs once each way; eager GPUs launch several kernels."""
    elements = norm.rows * norm.width
    saved = elements * how.value_bytes * norm.keeps_input
    masks = elements * how.mask_bytes * norm.dropout
    fused = how.compiled or how.device == "cpu"
    passes = 5 + (3 if fused else 4 + 2 * norm.dropout) * norm.residual
    return Cost(
        kept=saved + masks + 2 * norm.rows * FP32,  # a mean and a deviation per row
        moved=passes * elements * how.value_bytes + 2 * masks, elements=elements,
        function="norm of sum" if norm.residual else "norm", starts=16 if norm.residual else 12,
    )  # fmt: skip


def _attention(attention: op.Attention, how: Execution) -> Cost:
    """Attention: saves queries, keys, values, and the probabilities or, fused, a sum per query."""
    rows, queries, keys = attention.rows, attention.queries, attention.keys
    inner = attention.heads * attention.head_dim
    scores = rows * attention.heads * queries * attention.span
    flops = 2 * 2 * attention.pairs * inner
    if attention.span < keys:  # blocks have copies of the keys on both sides
        keys = -(-keys * attention.span // block_size(attention.reach or 0))
    saved = rows * (queries + 2 * keys) * inner * how.value_bytes
    fused = is_fused(attention, how)
    masks = 0 if fused else 2 * scores * how.mask_bytes
    plain = Cost(
        flops=flops, train_flops=3 * flops,
        moved=4 * saved if fused else 4 * saved + 8 * scores * how.value_bytes,
        function="attention", elements=scores, starts=11 if fused else 20,
    )  # fmt: skip
    if attention.mask == "scores":  # gradients of the scores, of the added bias and of its factors
        saved += scores * how.value_bytes + masks
        return plain._replace(kept=saved, transient=4 * scores * how.value_bytes)
    if not fused:
        saved += scores * how.value_bytes + masks
        transient = scores + rows * keys * inner
        return plain._replace(kept=saved, transient=transient * how.value_bytes)
    saved += rows * attention.heads * queries * FP32
    saved += rows * queries * inner * how.value_bytes * attention.keeps_output
    if attention.mask == "targets":  # its mask and zeroed output
        saved += rows * queries * (keys + inner) * how.value_bytes
    if attention.mask == "bias":
        saved += scores * how.value_bytes
    elif attention.span < attention.keys:  # the mask of the blocks, as numbers
        saved += rows * queries * attention.span * how.value_bytes
    transient = rows * (2 * keys + queries) * inner * how.value_bytes
    if how.device == "cuda" and how.precision == "bf16":
        end_to_end = attention.mask == "keys" and not attention.dropout
        places = attention.sequences if end_to_end else 0
        transient += rows * flash_bytes(keys, attention.heads, attention.head_dim, places)
        if attention.sequences and not end_to_end:  # mask of packed rows
            saved += rows * queries * attention.span * how.value_bytes
    return plain._replace(kept=saved, transient=transient)


def _recurrence(recurrence: op.Recurrence, how: Execution) -> Cost:
    """Each step reads the weights again; an LSTM is one kernel with a workspace of its own."""
    rows, width, gates = recurrence.rows, recurrence.width, recurrence.gates
    states = rows * recurrence.steps
    flops = 2 * states * width * gates * width
    saved = states * width * (3 * gates + 1)
    fused = gates == 4  # an LSTM, which oneDNN and cuDNN have whole
    if fused and how.device == "cpu" and how.precision == "bf16" and how.bf16 == "looped":
        saved = states * 3 * width  # as allocated, by torch's loop over the steps
    elif fused and how.device == "cpu":  # as allocated: oneDNN keeps sums in fp32 beside values
        narrower, wider = (10, 6) if how.precision == "fp32" else (12, 10)
        saved = states * (narrower * width + wider * max(width, recurrence.inner))
    elif fused:
        saved = states * width * (gates + 2)
    moved = saved + recurrence.steps * gates * width * width
    return Cost(
        flops=flops,
        # the state before the first step is zero, and has no gradient
        train_flops=3 * flops - 2 * rows * width * gates * width,
        kept=saved * how.value_bytes, moved=3 * moved * how.value_bytes,
        # gradients of its inputs and states
        transient=states * (width + recurrence.inner) * how.value_bytes,
        starts=20 if fused else 12 * recurrence.steps,
    )  # fmt: skip


def is_fused(attention: op.Attention, how: Execution) -> bool:
    """Tell whether one fused kernel runs.

    A CPU has none with dropout, and eager none that is quick for short rows in bf16 or with a bias.
    """
    short = how.precision == "bf16" and attention.span <= SHORT_KEYS
    slow = (short or attention.mask == "bias") and not how.compiled
    return not (how.device == "cpu" and (attention.dropout or slow))


def flash_bytes(seq: int, heads: int, head_dim: int, sequences: int) -> int:
    """Bytes per row in backward: gradients of queries in fp32, and a sum per query.

    ``sequences`` is the number of packed sequences, empty ones included; 0 for unpacked rows.
    """
    tokens = seq + FLASH_BLOCK * sequences if sequences else -(-seq // FLASH_BLOCK) * FLASH_BLOCK
    return FP32 * tokens * heads * (-(-head_dim // FLASH_WIDTH) * FLASH_WIDTH + 1)
