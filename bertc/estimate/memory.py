"""Memory of a training step: weights, gradients, optimiser state, and what backward needs.

Counted as autograd keeps it without a compiler, which may keep less: the inputs of every product,
norm and activation, dropout masks, and the vocabulary's scores at predicted positions. Those of
attention are kept only where it runs unfused.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from bertc.estimate.figures import Memory, Parameters
from bertc.ir.base import Kept
from bertc.ir.encoder import Encoder
from bertc.ir.resolved import Stage, head_kept
from bertc.passes.plan import largest_divisor

FP32 = 4
OPTIMIZER_BYTES = 8
"""Per weight: two moments in fp32 (Adam, LAMB)."""
USABLE = 0.92
"""Share of the memory a step may fill; the rest is for the driver's context and fragmentation."""


@dataclass(frozen=True)
class Room:
    """Where a step runs: the memory of the device, its kind, and what it computes in."""

    memory_bytes: int
    device: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Load:
    """Bytes a step needs beside its weights, gradients and optimiser state."""

    fixed: int
    per_example: int


def stage_memory(
    stage: Stage,
    encoder: Encoder,
    parameters: Parameters,
    room: Room,
) -> Memory:
    """One stage; ``parameters`` are those of the whole run."""
    load = step_load(stage, encoder, parameters, room)
    states = parameters.total * (2 * FP32 + OPTIMIZER_BYTES)
    usable = int(room.memory_bytes * USABLE)
    largest = max(0, (usable - states - load.fixed) // load.per_example)
    microbatch = stage.microbatch or largest_divisor(stage.batch, largest)
    activations = load.fixed + microbatch * load.per_example
    return Memory(
        weights_bytes=parameters.total * FP32,
        gradients_bytes=parameters.total * FP32,
        optimizer_bytes=parameters.total * OPTIMIZER_BYTES,
        activations_bytes=activations,
        peak_bytes=states + activations,
        microbatch=microbatch,
        largest_microbatch=largest,
    )


def step_load(stage: Stage, encoder: Encoder, parameters: Parameters, room: Room) -> Load:
    """Bytes that one forward and backward pass needs at its fullest, the end of forward."""
    on_cpu = room.device == "cpu"
    value_bytes = 2 if room.precision == "bf16" else FP32
    mask_bytes = value_bytes if on_cpu else 1  # CPU kernels keep dropout masks as values
    # Fused attention on a CPU has no dropout.
    fused = not (on_cpu and encoder.dropout.attention)
    kept = encoder_kept(encoder, stage.seq, fused) + head_kept(stage, encoder)
    bytes_kept = kept.values * value_bytes + kept.fp32 * FP32 + kept.masks * mask_bytes
    # Gradients under way: either of the scores over the vocabulary, or within one layer.
    logits = stage.predictions() * encoder.vocab_size * value_bytes
    widest = max(widths.ffn for widths in encoder.layers)
    layer = stage.seq * (2 * widest + 2 * encoder.hidden) * value_bytes
    # A cast weight lives until backward has used it, once for every layer that applies it.
    cast = parameters.applied - parameters.embeddings + encoder.vocab_size * encoder.embedding
    return Load(
        fixed=cast * value_bytes if room.precision == "bf16" else 0,
        per_example=bytes_kept + max(logits, layer),
    )


def encoder_kept(encoder: Encoder, seq: int, fused: bool) -> Kept:
    """What the encoder keeps of one example of ``seq`` tokens."""
    hidden, embedding = encoder.hidden, encoder.embedding
    dropped = 1 if encoder.dropout.hidden else 0
    norm = Kept(values=seq * hidden, fp32=2 * seq)  # its input, mean and deviation
    residual = Kept(masks=dropped * seq * hidden)
    ids = Kept(fp32=2 * 2 * seq)  # token and segment ids, eight bytes each
    total = ids + Kept(values=seq * hidden, masks=dropped * seq * embedding)  # and the last states
    if encoder.norm.kind == "post":
        total += Kept(values=seq * embedding, fp32=2 * seq)
    else:
        total += norm
    if encoder.factorised:
        total += Kept(values=seq * embedding)
    for (heads, head_dim, width), layers in Counter(
        (widths.heads, widths.head_dim, widths.ffn) for widths in encoder.layers
    ).items():
        layer = (
            encoder.attention.kept(hidden, heads, head_dim, seq, fused)
            + encoder.ffn.kept(hidden, width, seq)
            + norm + residual + norm + residual
        )  # fmt: skip
        total += Kept(layers * layer.values, layers * layer.fp32, layers * layer.masks)
    return total
