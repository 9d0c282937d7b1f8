"""A vector for each text, from a model's hidden states.

Axes: n texts, b rows of a batch, s tokens, h hidden, e embedding.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertc.base.diagnostics import UsageError, listed, several
from bertc.data.cache.store import Progress, Silent
from bertc.data.examples.encode import encode
from bertc.data.examples.task_rows import TaskRows
from bertc.data.layouts.example import TextExample
from bertc.data.vocab.existing import vocabulary_of
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.hub.sentences import LONGEST_TEXT, MODES, Sentences, vectors_of
from bertc.ir.learning.answer import Pooling
from bertc.ir.learning.custom_task import Classify
from bertc.ir.learning.mining import TextKind
from bertc.learn.objectives.softmax.similarities import pooled
from bertc.model import EncoderInputs, Model

TOKENS_AT_ONCE = {"cpu": 1 << 11, "cuda": 1 << 14}
"""Tokens of a batch. Small batches have little padding, and cost a CPU nothing."""


@dataclass(frozen=True)
class Embedded:
    """Vectors (n, e) in fp32, in the order of the texts; ``cut`` of these were too long.

    ``empty`` texts have the vector of special tokens alone; ``made`` says how vectors are made.
    """

    vectors: NDArray[np.float32]
    cut: int
    longest: int
    seconds: float
    empty: int = 0
    made: str = ""

    def summary(self) -> str:
        """Number of texts, width and speed; more lines if texts were cut, or are empty."""
        count, width = self.vectors.shape
        speed = f", {count / self.seconds:,.0f} a second" if self.seconds else ""
        lines = [
            f"{several(count, 'text')}, {width:,} numbers each, in {self.seconds:.1f} s{speed}",
            self.made,
        ]
        if self.cut:
            lines.append(f"{several(self.cut, 'text')} longer than {self.longest:,} tokens, cut")
        if self.empty:
            lines.append(
                f"{several(self.empty, 'text')} without a word, with vectors of special tokens"
            )
        return "\n".join(lines)


@torch.no_grad()
def embed(
    model: Model,
    folder: Path,
    texts: Sequence[str],
    pooling: str = "",
    *,
    normalise: bool | None = None,
    prompt: str = "",
    kind: TextKind | None = None,
    width: int = 0,
    progress: Progress | None = None,
    vocabulary: Vocabulary | None = None,
) -> Embedded:
    """A vector for each text: the mean or the maximum over tokens, or the first token's state.

    What is empty or None is as the model has learned to embed, else as its folder of
    sentence-transformers says, else the mean. ``prompt`` names one of the folder's, or ``kind`` the
    text. Special tokens count, as there. ``width`` numbers of a vector are taken, 0: all.
    """
    sentences = _sentences(model, folder, pooling, prompt, kind)
    pooling = pooling or sentences.pooling
    normalise = sentences.normalise if normalise is None else normalise
    pool = next((known for known in MODES if known == pooling), None)
    if pool is None:
        raise UsageError(f"--pooling {pooling}: there is none", help=f"one of {', '.join(MODES)}")
    node = model.encoder.node
    if width > node.hidden:
        raise UsageError(f"vectors of {folder} have {node.hidden} numbers, not {width}")
    width = width or node.hidden
    started, progress = time.perf_counter(), progress or Silent()
    vocabulary = vocabulary or vocabulary_of(folder, node.vocab_size)
    longest = min(sentences.longest or LONGEST_TEXT, node.room or LONGEST_TEXT)
    examples = [TextExample(str(n), (sentences.prompt + t,), None) for n, t in enumerate(texts)]
    rows = encode(Classify(), examples, vocabulary, longest, node.kinds_of_segments)
    vectors = np.empty((len(texts), width), np.float32)
    progress.begin(f"embedding {several(len(texts), 'text')}", len(texts), "texts")
    for chosen in _batches(rows.lengths, TOKENS_AT_ONCE[next(model.parameters()).device.type]):
        vectors_be = _vectors(model, pool, *batch_of_rows(rows, chosen, vocabulary.pad))[:, :width]
        if normalise:
            vectors_be = torch.nn.functional.normalize(vectors_be, dim=1)
        vectors[chosen] = vectors_be.cpu().numpy()
        progress.advance(len(chosen))
    progress.end()
    empty = sum(not text.strip() for text in texts)
    how = f"pooling {pooling}" + ", of length 1" * normalise + _prompted(sentences)
    return Embedded(vectors, rows.num_cut, longest, time.perf_counter() - started, empty, how)


def _batches(lengths: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Numbers of rows, longest first, for batches of at most ``tokens`` with padding."""
    order, begin = np.argsort(-lengths, kind="stable"), 0
    while begin < len(order):
        yield (chosen := order[begin : begin + max(1, tokens // int(lengths[order[begin]]))])
        begin += len(chosen)


def _prompted(sentences: Sentences) -> str:
    """The prompt before the texts, or those that were not taken."""
    if sentences.prompt:
        return f", after {sentences.prompt!r}"
    there = listed(sentences.prompts)
    return f", without a prompt (there are {there})" if there else ""


def _sentences(
    model: Model, folder: Path, pooling: str, prompt: str, kind: TextKind | None
) -> Sentences:
    """The way a model makes vectors, with the prompt of that name, or of that kind of text."""
    sentences = vectors_of(folder, model.resolved) or Sentences()
    if pooling and sentences.obstacle:
        sentences = Sentences()
    sentences.refuse_obstacle(folder)
    if kind:
        return replace(sentences, prompt=sentences.prompt_for(kind))
    if prompt and prompt not in sentences.prompts:
        names = [name for name, text in sentences.prompts.items() if text]
        raise UsageError(
            f"{folder} has no prompt {prompt}",
            help=f"--prompt {' or '.join(names)}" if names else "put it before each text",
        )
    return replace(sentences, prompt=sentences.prompts[prompt]) if prompt else sentences


def batch_of_rows(
    rows: TaskRows, chosen: NDArray[np.int64], pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Token and segment ids (b, s) of some rows, padded at the end, and their lengths (b,)."""
    lengths_b = torch.from_numpy(rows.lengths[chosen]).long()
    shape = len(chosen), int(rows.lengths[chosen].max(initial=0))
    ids_bs, segments_bs = torch.full(shape, pad), torch.zeros(shape, dtype=torch.long)
    for row, at in enumerate(chosen):
        length = rows.lengths[at]
        place = slice(rows.begins[at], rows.begins[at] + length)
        ids_bs[row, :length] = torch.from_numpy(rows.token_ids[place]).long()
        segments_bs[row, :length] = torch.from_numpy(rows.segment_ids[place]).long()
    return ids_bs, segments_bs, lengths_b


def _vectors(
    model: Model, pooling: Pooling, ids_bs: Tensor, segments_bs: Tensor, lengths_b: Tensor
) -> Tensor:
    device = next(model.parameters()).device
    ids_bs, segments_bs, lengths_b = (x.to(device) for x in (ids_bs, segments_bs, lengths_b))
    mask_bs = torch.arange(ids_bs.shape[1], device=device) < lengths_b[:, None]
    inputs = EncoderInputs(ids_bs, segments_bs, mask_bs)
    return pooled(pooling, model.read_on(inputs).last, mask_bs)
