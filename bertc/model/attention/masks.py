"""Attention masks: the keys that each query attends to.

Axes: b batch, s row, q queries, k keys (cached positions, then the row), u query-stream states, r
sequences of a batch, m sequences or blocks of a row, z queries of a block.
"""

from typing import NamedTuple, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from bertc.ir.blocks import block_size, in_blocks
from bertc.model.inputs import EncoderInputs, PermutationMask

ContextT = TypeVar("ContextT")


class Mask(NamedTuple):
    """A mask as tensors; with nothing set every query attends to every key.

    A query without keys is allowed all, so that its softmax stays finite; its output is zeroed.
    """

    allowed: Shaped[Tensor, "#b #n #q k"] | None = None  # floats are added to the scores
    has_keys: Bool[Tensor, "b 1 q 1"] | None = None
    is_causal: bool = False  # excludes later keys without a tensor

    def select_queries(self, inputs: EncoderInputs, at_bq: Int[Tensor, "b q"]) -> "Mask":
        """The mask of the queries at some positions."""
        if self.is_causal:
            lane_s = torch.arange(inputs.token_ids.shape[1], device=at_bq.device)
            return Mask((lane_s <= at_bq[..., None])[:, None])
        allowed, has_keys = (
            x if x is None else select_rows(x, at_bq) for x in (self.allowed, self.has_keys)
        )
        return Mask(allowed, has_keys)


class VarlenOffsets(NamedTuple):
    """Offsets of the sequences of a batch, its rows concatenated, for a varlen kernel."""

    offsets: Int[Tensor, "bounds"]  # the first token of each sequence, then b * s
    longest: int
    outputs: Int[Tensor, "b q"] | None = None  # positions of the outputs, if not all
    reach: int | None = None  # tokens on each side that a query attends to; None: all


class Blocks(NamedTuple):
    """The mask of windows: queries in blocks, each against the keys of its block and on both sides.

    ``allowed`` is as of ``Mask``, of the blocks of all rows, one row after the other. A row is
    filled up to whole blocks, and on both sides by ``reach`` keys that are attended to by none.
    """

    allowed: Shaped[Tensor, "blocks #n z k"]
    reach: int
    outputs: Int[Tensor, "b q"] | None = None  # positions of the outputs, if not all

    def queries(self, x: Shaped[Tensor, "b s n d"]) -> Shaped[Tensor, "blocks n z d"]:
        """The blocks of rows (b, s, n, d)."""
        return _filled(x, self.allowed.shape[2]).flatten(0, 1).transpose(1, 2)

    def keys(self, x: Shaped[Tensor, "b s n d"]) -> Shaped[Tensor, "blocks n k d"]:
        """The blocks of rows (b, s, n, d) with both sides."""
        blocks = _filled(x, self.allowed.shape[2])
        return _with_sides(blocks, self.reach).flatten(0, 1).transpose(1, 2)

    def rows(self, x: Shaped[Tensor, "blocks n z d"], b: int, s: int) -> Shaped[Tensor, "b s n d"]:
        """The rows of blocks (blocks, n, z, d)."""
        return torch.unflatten(x, 0, (b, -1)).transpose(2, 3).flatten(1, 2)[:, :s]


def _filled(x: Shaped[Tensor, "b s n d"], size: int) -> Shaped[Tensor, "b m z n d"]:
    """Rows filled up with zeros, in blocks of ``size``."""
    return torch.unflatten(F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % size)), 1, (-1, size))


def _with_sides(blocks: Shaped[Tensor, "b m z n d"], reach: int) -> Shaped[Tensor, "b m k n d"]:
    """Blocks with ``reach`` entries of the block before and of the one after, else zeros."""
    before = F.pad(blocks[:, :-1, -reach:], (0, 0, 0, 0, 0, 0, 1, 0))
    after = F.pad(blocks[:, 1:, :reach], (0, 0, 0, 0, 0, 0, 0, 1))
    return torch.cat([before, blocks, after], dim=2)


AttentionMask = Mask | VarlenOffsets | Blocks
"""The masks that ``attend`` takes."""
OF_ALL_QUERIES = (VarlenOffsets, Blocks)
"""Masks of kernels that need a query for each key, and give the outputs that are requested."""


def mask_of(inputs: EncoderInputs) -> Mask:
    """The mask of these inputs as tensors, with everything that affects it."""
    if inputs.permutation is not None:
        memory, in_order = inputs.memory, inputs._replace(permutation=None, memory=None)
        also = mask_of(in_order).allowed
        allowed_bqs = permuted(inputs.permutation, None if also is None else also[:, 0])
        return with_empty_queries(allowed_bqs if memory is None else memory.allowed(allowed_bqs))
    if inputs.causal or inputs.memory is not None:
        return Mask(_before(inputs)[:, None])
    if inputs.sequence_ids is not None:
        return Mask(within_sequences(inputs.sequence_ids))
    if inputs.attention_mask is not None:
        real_bs = inputs.attention_mask.bool()
        # In a row of padding only, all tokens are keys.
        return Mask((real_bs | ~real_bs.any(1, keepdim=True))[:, None, None, :])
    return Mask()


def kernel_mask(inputs: EncoderInputs, varlen: bool, reach: int | None = None) -> AttentionMask:
    """The same mask without a tensor if a fused kernel has such a form; of windows in blocks."""
    seq, in_order = inputs.token_ids.shape[1], inputs.permutation is None and inputs.memory is None
    if in_order and inputs.causal and inputs.sequence_ids is None and reach is None:
        return Mask(is_causal=True)
    if in_order and varlen and inputs.starts is not None and not inputs.causal:
        return end_to_end(inputs.starts, seq)._replace(reach=reach)
    if reach is None:
        return mask_of(inputs)
    # A graph for rows of any length has no blocks, and must not ask how long a row is.
    if in_order and not exports() and in_blocks(seq, reach):
        return _in_blocks(inputs, reach)
    return near(mask_of(inputs), inputs, reach)


def exports() -> bool:
    """Is a graph for rows of any length traced?"""
    # torch 2.11 says ``is_exporting`` of all that is compiled.
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def near(mask: Mask, inputs: EncoderInputs, reach: int) -> Mask:
    """The mask within windows, of which every token of a row sees at least itself."""
    lanes_1s = torch.arange(inputs.token_ids.shape[1], device=inputs.token_ids.device)[None]
    queries_bq = inputs.in_queries(lanes_1s)
    apart_b1qk = (queries_bq[:, :, None] - lanes_1s[:, None, :])[:, None]
    allowed_b1qk = apart_b1qk.abs() <= reach
    if mask.allowed is not None:
        allowed_b1qk = allowed_b1qk & mask.allowed
    if mask.has_keys is not None:
        return with_empty_queries((allowed_b1qk & mask.has_keys)[:, 0])
    return Mask(_at_least_itself(allowed_b1qk, apart_b1qk))


def _at_least_itself(allowed: Tensor, apart: Tensor) -> Tensor:
    """The mask in which queries without any key, as in padding, attend to themselves."""
    return allowed | ((apart == 0) & ~allowed.any(-1, keepdim=True))


def _in_blocks(inputs: EncoderInputs, reach: int) -> Blocks:
    """The same mask in blocks, of rows in order."""
    (b, seq), device, size = inputs.token_ids.shape, inputs.token_ids.device, block_size(reach)
    first_m1 = torch.arange(0, seq, size, device=device)[:, None]
    query_mz = first_m1 + torch.arange(size, device=device)
    key_mk = first_m1 + torch.arange(-reach, size + reach, device=device)
    apart_mzk = query_mz[:, :, None] - key_mk[:, None, :]
    inside_m1k = ((key_mk >= 0) & (key_mk < seq))[:, None]
    allowed_bmzk = ((apart_mzk.abs() <= reach) & inside_m1k)[None]
    if inputs.causal:
        allowed_bmzk = allowed_bmzk & (apart_mzk >= 0)
    numbers_bs = inputs.attention_mask if inputs.sequence_ids is None else inputs.sequence_ids
    if numbers_bs is not None:
        blocks = _filled(numbers_bs[..., None, None], size)
        keys_bm1k = _with_sides(blocks, reach)[..., 0, 0][:, :, None]
        packed = inputs.sequence_ids is not None
        allowed_bmzk = allowed_bmzk & (keys_bm1k == blocks[..., 0] if packed else keys_bm1k.bool())
    allowed_bmzk = _at_least_itself(allowed_bmzk, apart_mzk).expand(b, -1, -1, -1)
    return Blocks(allowed_bmzk.flatten(0, 1)[:, None], reach)


def _before(inputs: EncoderInputs) -> Bool[Tensor, "#b s k"]:
    """A mask (b|1, s, k) of a causal encoder, whose padding follows all keys, or with memory."""
    memory, (_, seq) = inputs.memory, inputs.token_ids.shape
    allowed_bss = not_later(seq, inputs.token_ids.device)
    if not inputs.causal:
        allowed_bss = torch.ones_like(allowed_bss)
    if inputs.sequence_ids is not None:
        allowed_bss = allowed_bss & within_sequences(inputs.sequence_ids)[:, 0]
    if memory is None:
        return allowed_bss
    allowed_bsk = memory.allowed(allowed_bss)
    return allowed_bsk.triu(1) if memory.same_length else allowed_bsk


def within_sequences(sequence_ids_bs: Int[Tensor, "b s"]) -> Bool[Tensor, "b 1 s s"]:
    """Keys have the query's sequence number; padding included."""
    return (sequence_ids_bs[:, :, None] == sequence_ids_bs[:, None, :])[:, None]


def not_later(seq: int, device: torch.device) -> Bool[Tensor, "1 {seq} {seq}"]:
    """Keys are the query itself and earlier tokens."""
    return torch.ones(1, seq, seq, dtype=torch.bool, device=device).tril()


def permuted(order: PermutationMask, also: Bool[Tensor, "#b #s s"] | None) -> Bool[Tensor, "b q s"]:
    """The mask of a permutation and ``also``: for the row (s), then for the query stream (u)."""
    allowed_bss = order.rank[:, None, :] < order.visible_below[:, :, None]
    if also is not None:
        allowed_bss = allowed_bss & also
    own_ss = torch.eye(allowed_bss.shape[1], dtype=torch.bool, device=allowed_bss.device)
    # The query stream does not attend to its own token.
    stream_b1us = select_rows((allowed_bss & ~own_ss)[:, None], order.target_positions)
    return torch.cat([allowed_bss | own_ss, stream_b1us[:, 0]], dim=1)


def with_empty_queries(allowed_bqk: Bool[Tensor, "b q k"]) -> Mask:
    """The mask of queries of which some have no key."""
    has_keys_bq1 = allowed_bqk.any(2, keepdim=True)
    return Mask((allowed_bqk | ~has_keys_bq1)[:, None], has_keys_bq1[:, None])


def end_to_end(starts_bm: Int[Tensor, "b m"], seq: int) -> VarlenOffsets:
    """``within_sequences`` for sequences that begin at ``starts_bm``; unused ones are empty."""
    first_b1 = torch.arange(len(starts_bm), device=starts_bm.device)[:, None] * seq
    offsets_r = (starts_bm + first_b1).reshape(-1)
    return VarlenOffsets(F.pad(offsets_r, (0, 1), value=len(starts_bm) * seq).int(), seq)


def select_rows(
    x: Shaped[Tensor, "#b 1 #r k"], positions_bq: Int[Tensor, "b q"]
) -> Shaped[Tensor, "#b 1 #q k"]:
    """The queries of (b|1, 1, 1|q, k) at positions (b, q)."""
    if x.shape[2] == 1:
        return x
    b, q = positions_bq.shape
    x = x.expand(b, -1, -1, -1)
    return x.gather(2, positions_bq[:, None, :, None].expand(b, 1, q, x.shape[3]))


def rows_of(context: ContextT, names: tuple[str, ...], rows: slice) -> ContextT:
    """The context of some rows of the batch, which the tensors of these names have."""
    cut = {name: of_rows(getattr(context, name), rows) for name in names}
    return cast(ContextT, context._replace(**cut))  # type: ignore[attr-defined]


def of_rows(x: Tensor | None, rows: slice) -> Tensor | None:
    """Some rows of (b, ...), or (1, ...), which all rows share."""
    # A graph that is traced for any number of rows takes no len().
    return x if x is None or x.shape[0] == 1 else x[rows]
