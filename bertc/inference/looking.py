"""The attention of a trained model over one text, head by head.

Axes: b batch, s sequence, q queries, k keys, n heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bertc.data import Vocabulary
from bertc.diagnostics import UsageError
from bertc.evaluation.without import transformer_of
from bertc.inference.attention_maps import maps
from bertc.inference.heads import Head, HeadReport
from bertc.inference.trained import Trained, load
from bertc.ir.address import key
from bertc.nn import EncoderInputs
from bertc.nn.inputs import PermutationMask, nothing

MOST_ENTRIES = 6_000_000
"""Entries of all maps of a page, a byte each before they are compressed."""
LONGEST = 128
MAP_LEVELS = 255


@dataclass(frozen=True)
class View:
    """Maps of all heads in one way of reading: (heads of all layers, q, k), 255 is all attention.

    ``queries`` and ``keys`` are tokens; ``remembered`` of the keys stand in a memory before them.
    """

    name: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    remembered: int
    maps_nqk: NDArray[np.uint8]


@dataclass(frozen=True)
class Looking:
    """The views of a text, the number of heads of each layer, and what is said of heads.

    ``patterns`` are of rows of a file; empty if none was read. ``cut``: the text is longer.
    """

    run: Path
    views: tuple[View, ...]
    heads: tuple[int, ...]
    patterns: Mapping[tuple[int, int], Head]
    cut: bool


def looking(run: Path, text: str, pair: str = "", heads: HeadReport | None = None) -> Looking:
    """Read a text, or a pair, and keep the attention of every head.

    A network with a query stream reads it in a random order too, one trained with a memory in two
    parts. ``heads`` has the patterns of heads over other rows.

    Raises:
        MissingInputError, DataError: if there is no model, or it has no heads.
        UsageError: if the text has no tokens.
    """
    model = load(run)
    node = transformer_of(model)
    reading = model.tokenizer([(text, pair) if pair else text])
    ids_bs = reading["token_ids"]
    counts = tuple(layer.heads for layer in node.layers)
    room = min(LONGEST, int((MOST_ENTRIES / sum(counts) / (1 + 2 * node.two_streams)) ** 0.5))
    cut = ids_bs.shape[1] > room
    if not text.strip() or ids_bs.shape[1] < 2:
        raise UsageError("the text has no tokens", help="write a few words")
    inputs = EncoderInputs(ids_bs[:, :room], reading["segment_ids"][:, :room])
    vocabulary = model.tokenizer.vocabulary
    views = [_view("text", model, inputs, vocabulary)]
    if node.two_streams:
        views += _streams(model, inputs, vocabulary)
    if model.resolved.stages[-1].memory:
        views.append(_remembering(model, inputs, vocabulary))
    patterns = {(head.layer, head.head): head for head in heads.heads} if heads else {}
    return Looking(run, tuple(views), counts, patterns, cut)


def _view(
    name: str, model: Trained, inputs: EncoderInputs, vocabulary: Vocabulary, before: int = 0
) -> View:
    """The maps of one reading; ``before`` of its keys are those of an earlier part."""
    seen: list[NDArray[np.uint8]] = []

    def see(layer: int, map_bnqk: torch.Tensor) -> None:
        levels_nqk = (map_bnqk[0, :, :, -keys:] * MAP_LEVELS).round().clamp(0, MAP_LEVELS)
        seen.append(levels_nqk.to(torch.uint8).numpy())

    tokens = _tokens(inputs, vocabulary)
    keys = before + len(tokens)
    maps(model, inputs, see)
    maps_nqk = np.concatenate(seen)
    return View(name, tokens, tokens, before, maps_nqk)


def _tokens(inputs: EncoderInputs, vocabulary: Vocabulary) -> tuple[str, ...]:
    return tuple(vocabulary.readable(token) for token in inputs.token_ids[0].tolist())


def _streams(model: Trained, inputs: EncoderInputs, vocabulary: Vocabulary) -> list[View]:
    """Both streams (Yang et al. 2019, 2.3) as they read the text in a random order."""
    ids_bs = inputs.token_ids
    seq = ids_bs.shape[1]
    generator = torch.Generator().manual_seed(key(model.resolved.run.seed, "looking") % 2**63)
    rank_bs = torch.randperm(seq, generator=generator)[None]
    every_bu = torch.arange(seq)[None]
    order = inputs._replace(permutation=PermutationMask(rank_bs, rank_bs, every_bu))
    whole = _view("", model, order, vocabulary)
    tokens = tuple(
        f"{token} ({rank + 1})" for token, rank in zip(whole.keys, rank_bs[0].tolist(), strict=True)
    )
    return [
        replace(whole, name=name, queries=tokens, keys=tokens, maps_nqk=part)
        for name, part in (
            ("content stream, in a random order", whole.maps_nqk[:, :seq]),
            ("query stream, in a random order", whole.maps_nqk[:, seq:]),
        )
    ]


def _remembering(model: Trained, inputs: EncoderInputs, vocabulary: Vocabulary) -> View:
    """The second half of a text, read with the first in the memory (Dai et al. 2019, 3.2)."""
    node = transformer_of(model)
    ids_bs, segments_bs = inputs.token_ids, inputs.segment_ids
    half = ids_bs.shape[1] // 2
    assert segments_bs is not None, "the tokenizer gives them"
    empty = nothing(len(node.layers), 1, half, node.hidden, torch.float32, ids_bs.device)
    first = EncoderInputs(ids_bs[:, :half], segments_bs[:, :half], memory=empty)
    remembered = maps(model, first, lambda layer, map_bnqk: None).memory
    second = EncoderInputs(ids_bs[:, half:], segments_bs[:, half:], memory=remembered)
    view = _view("second half, the first in the memory", model, second, vocabulary, half)
    return replace(view, keys=(*_tokens(first, vocabulary), *view.keys))
