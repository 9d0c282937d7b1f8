"""What the layers of an encoder need in memory, and the machine that it lies in.

What is kept is what autograd keeps without a compiler: the inputs of every product, norm and
activation, dropout masks, the weights as cast.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from bertc.ir.base import DeviceKind, Kept
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.resolved import Network
from bertc.planning.world import Strategy

FP32 = 4
FLASH_BLOCK, FLASH_WIDTH = 128, 32
"""Tokens that FlashAttention's backward takes at once, to multiples of which sequences are rounded
up, and numbers of a head, which are too (FlashAttention 2, flash_api.cpp)."""


@dataclass(frozen=True)
class Room:
    """Where a step runs: the memory of the device, its kind, what it computes in and how.

    Under the ``strategy`` ddp gradients stay from step to step. On a GPU where this process has
    ``begun`` its context no longer counts: the memory is what is left.
    """

    memory_bytes: int
    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool
    recompute: Literal["auto", "on", "off"]
    strategy: Strategy = "single"
    begun: bool = False

    @property
    def value_bytes(self) -> int:
        """Of an activation."""
        return 2 if self.precision == "bf16" else FP32

    def bytes_of(self, kept: Kept) -> int:
        """Of dropout an eager CPU keeps a seed alone; compiled it keeps values, a GPU bytes."""
        mask_bytes = 1
        if self.device == "cpu":
            mask_bytes = self.value_bytes if self.compiled else 0
        return kept.values * self.value_bytes + kept.fp32 * FP32 + kept.masks * mask_bytes

    def fused(self, encoder: Encoder) -> bool:
        """Whether attention keeps no scores: a CPU has no fused kernel with dropout, and that of
        Apple's GPUs is not used.
        """
        if self.device == "mps":
            return False
        return not (self.device == "cpu" and encoder.dropout.attention)


@dataclass(frozen=True)
class LayerBytes:
    """What one layer needs: of weights and of copies of them, and of one example."""

    attention_weights: int
    ffn_weights: int
    copies: int
    attention_kept: int
    ffn_kept: int
    attention_working: int
    ffn_working: int

    def of_rows(self, rows: int) -> "LayerBytes":
        """Where each example has so many rows."""
        each = ("attention_kept", "ffn_kept", "attention_working", "ffn_working")
        return replace(self, **{name: rows * getattr(self, name) for name in each})

    @property
    def kept(self) -> int:
        """By both parts, for backward."""
        return self.attention_kept + self.ffn_kept


class Gradients:
    """Bytes of the layers' gradients as backward adds them.

    Where there are gradients of earlier micro-batches a new one is added to them at once, but that
    of shared weights only after the last layer that uses them.
    """

    def __init__(self, encoder: Encoder, accumulating: bool) -> None:
        self._owners = {"attention": encoder.attention_owner, "ffn": encoder.ffn_owner}
        self._users = {part: Counter(owners) for part, owners in self._owners.items()}
        self._accumulating = accumulating
        self._seen: set[tuple[str, int]] = set()
        self._bytes = 0

    def add(self, part: Literal["attention", "ffn"], layer: int, part_bytes: int) -> int:
        """The bytes once the part of that layer has its gradients."""
        owner = self._owners[part][layer]
        if (part, owner) in self._seen:
            return self._bytes
        self._seen.add((part, owner))
        if self._accumulating and self._users[part][owner] == 1:
            return self._bytes + part_bytes
        self._bytes += part_bytes
        return self._bytes


def flash_bytes(seq: int, heads: int, head_dim: int, places: int) -> int:
    """Of a row in backward: gradients of its queries added up in fp32, and a sum a query.

    ``places`` for sequences, empty ones too, where rows lie end to end; 0 where a row is one.
    """
    tokens = seq + FLASH_BLOCK * places if places else -(-seq // FLASH_BLOCK) * FLASH_BLOCK
    return FP32 * tokens * heads * (-(-head_dim // FLASH_WIDTH) * FLASH_WIDTH + 1)


def layer_bytes(
    network: Network, seq: int, room: Room, memory: int = 0, places: int = 0
) -> tuple[LayerBytes, ...]:
    """An entry a layer; those of equal widths are worked out once.

    A row may hold several sequences at so many ``places``; 0: it is one.
    """
    encoder = network.encoder
    alike: dict[tuple[int, ...], LayerBytes] = {}
    found = []
    for number, widths in enumerate(encoder.layers):
        queries = encoder.queries(number, seq, network.asked, network.unseen)
        address = (widths.heads, widths.head_dim, widths.ffn, queries)
        if address not in alike:
            alike[address] = _layer_bytes(seq, memory, queries, network, room, number, places)
        found.append(alike[address])
    return tuple(found)


def _layer_bytes(
    row: int,
    memory: int,
    queries: int,
    network: Network,
    room: Room,
    number: int,
    places: int,
) -> LayerBytes:
    encoder = network.encoder
    widths, fused = encoder.layers[number], room.fused(encoder)
    heads, head_dim, seq = widths.heads, widths.head_dim, memory + row
    turned = (network.ways - 1) * (seq + (1 if encoder.causal else row))
    attention = sum(weight.numel for weight in encoder.attention_weights(number))
    ffn = sum(weight.numel for weight in encoder.ffn_weights(number))
    if room.precision == "bf16":
        copies = (attention + ffn) * room.value_bytes
    else:
        joined = encoder.attention.joined(encoder.hidden, heads, head_dim)
        copies = 0 if room.compiled else joined * FP32
    around = _around(encoder, queries)
    ordered = network.unseen > 0
    kept = around + encoder.attention.kept(
        encoder.hidden, heads, head_dim, seq, queries, turned, fused, ordered
    )
    if encoder.norm.kind == "pre" and queries != seq:  # what the queries look at is normed too
        apart = seq if queries < seq else 0  # else it is the first of what asks
        kept += Kept(values=apart * encoder.hidden, fp32=2 * seq)
    working, beside = encoder.attention.working(heads, head_dim, seq, queries, turned, fused), 0
    if room.device == "cuda" and room.precision == "bf16" and encoder.attention.kind == "full":
        end_to_end = not (encoder.dropout.attention or encoder.causal or memory or ordered)
        beside = flash_bytes(seq, heads, head_dim, places if end_to_end else 0)
        if places and not end_to_end:  # the mask as numbers, which the kernel keeps for backward
            kept += Kept(values=queries * seq)
    ffn_kept = encoder.ffn.kept(encoder.hidden, widths.ffn, queries) + around
    if encoder.dropout.ffn:
        ffn_kept += Kept(masks=queries * widths.ffn)
    return LayerBytes(
        attention_weights=attention * FP32,
        ffn_weights=ffn * FP32,
        copies=copies,
        attention_kept=room.bytes_of(kept),
        ffn_kept=room.bytes_of(ffn_kept),
        attention_working=working * room.value_bytes + beside,
        ffn_working=encoder.ffn.working(widths.ffn, queries) * room.value_bytes,
    )


def _around(encoder: Encoder, seq: int) -> Kept:
    """The input, mean and deviation of a part's norm, and the mask of its residual branch."""
    dropped = 1 if encoder.dropout.hidden else 0
    return Kept(values=seq * encoder.hidden, fp32=2 * seq, masks=dropped * seq * encoder.hidden)
