"""Rows in batches, and a vector for each text, from a model's hidden states.

Axes: n texts, b rows of a batch, s tokens, h hidden, e embedding.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bertc.base.diagnostics import DataError, UsageError, listed, several
from bertc.hub.sentences import LONGEST_TEXT, MODES, Sentences, vectors_of
from bertc.ir.learning import Embed, SparseVectors, TextKind, TokenVectors
from bertc.ir.terms.node import MASKED_HEAD
from bertc.learn.objectives.softmax.similarities import pooled, search, term_weights
from bertc.model import EncoderInputs, Model
from bertc.run.evaluation.task_inference import ROWS_AT_ONCE, TOKENS_AT_ONCE
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task_rows import ATTENDED, MATCHED, TaskRows
from bertc.tasks.layouts.example import SearchExample
from bertc.text.cache.store import Progress, Silent
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of


@dataclass(frozen=True)
class TextRow:
    """A row of text, as a network reads it."""

    token_ids: Sequence[int] | NDArray[Any]
    segment_ids: Sequence[int] | NDArray[Any]


RowT = TypeVar("RowT", bound=TextRow)


def in_batches(
    model: Model, rows: Sequence[RowT], pad: int = 0, language: int | None = None
) -> Iterator[tuple[Sequence[RowT], EncoderInputs]]:
    """Rows in order of their length, as many at once as a device has room for, and as inputs.

    ``language`` is the index of theirs; None: they are of none.
    """
    body, device, begin = model.resolved.encoder, next(model.parameters()).device, 0
    while part := rows[begin : begin + ROWS_AT_ONCE]:
        # Those after the first are longer: halved until all fit.
        while len(part) > 1 and len(part) * len(part[-1].token_ids) > TOKENS_AT_ONCE[device.type]:
            part = part[: len(part) // 2]
        begin += len(part)
        ids_bs, segments_bs, real_bs = (x_bs.to(device) for x_bs in padded(part, pad))
        segments_bs = segments_bs.clamp(max=max(0, body.kinds_of_segments - 1))
        known = len(body.languages)
        spoken = torch.full_like(ids_bs, known if language is None else language)
        languages_bs = spoken if known else None
        yield part, EncoderInputs(ids_bs, segments_bs, real_bs, language_ids=languages_bs)


def padded(rows: Sequence[TextRow], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Token and segment ids (b, s) of rows, padded at the end, and True at real tokens."""
    ids, segments = ([row.token_ids for row in rows], [row.segment_ids for row in rows])
    ids_bs, segments_bs, real_bs = (
        pad_sequence([torch.as_tensor(x).long() for x in column or [[]]], True, fill)[: len(rows)]
        for column, fill in ((ids, pad), (segments, 0), ([[1] * len(x) for x in ids], 0))
    )
    return ids_bs, segments_bs, real_bs.bool()


def text_rows(rows: TaskRows) -> list[TextRow]:
    """The rows of examples, one by one."""
    bounds = pairwise(rows.begins.tolist())
    return [TextRow(rows.token_ids[a:b], rows.segment_ids[a:b]) for a, b in bounds]


@dataclass(frozen=True)
class Embedded:
    """Vectors in fp32 of each text (e,), or of its tokens (k, e); ``cut`` texts were too long.

    Those of the vocabulary are sparse tensors. ``empty`` texts have the vector of special tokens
    alone; ``made`` says how vectors are made.
    """

    of_texts: Sequence[Tensor]
    width: int
    cut: int
    longest: int
    seconds: float
    empty: int = 0
    made: str = ""
    notes: tuple[str, ...] = ()

    @property
    def vectors(self) -> NDArray[np.float32]:
        """All vectors (n, e), of tokens (n, k, e), 0 after the last token of a text."""
        dense = [text.to_dense() for text in self.of_texts] or [torch.empty(self.width)]
        stacked: NDArray[np.float32] = pad_sequence(dense, batch_first=True).numpy()
        return stacked[: len(self.of_texts)]

    def summary(self) -> str:
        """Number of texts, width and speed; more lines if texts were cut, or are empty."""
        count, size = len(self.of_texts), f"{self.width:,} numbers each"
        if count and self.of_texts[0].is_sparse:
            terms = sum(text._nnz() for text in self.of_texts) / count
            size = f"{terms:,.1f} of {self.width:,} numbers each are not 0"
        speed = f", {count / self.seconds:,.0f} a second" if self.seconds else ""
        first = f"{several(count, 'text')}, {size}, in {self.seconds:.1f} s{speed}"
        lines = [first, self.made]
        if self.cut:
            lines.append(f"{several(self.cut, 'text')} longer than {self.longest:,} tokens, cut")
        if self.empty:
            texts = several(self.empty, "text")
            lines.append(f"{texts} without a word, with vectors of special tokens")
        return "\n".join([*lines, *self.notes])


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

    A model of vectors of tokens has one of length 1 for each: of a query's with ``prompt="query"``,
    else of a passage's. A sparse vector has the weight of each token id.
    """
    sentences = _sentences(model, folder, pooling, prompt, kind)
    ways = {name: getattr(sentences, name) for name in ("pooling", "dense", "prompt", "longest")}
    task, node = Embed.model_validate(ways), model.encoder.node
    by_token = task.answer.by_token
    if task.is_sparse and (normalise or width):
        message = f"vectors of {folder} are sparse, neither of length 1 nor cut"
        raise UsageError(message, help="leave out --normalise and --width")
    normalise = bool(by_token) or (sentences.normalise if normalise is None else normalise)
    task = task.model_copy(update={"normalise": normalise})
    most = node.vocab_size if task.is_sparse else (node.hidden, *task.dense)[-1]
    if width > (most := by_token.width if by_token else most):
        raise UsageError(f"vectors of {folder} have {most} numbers, not {width}")
    width, room = width or most, node.room or LONGEST_TEXT
    started, progress = time.perf_counter(), progress or Silent()
    vocabulary = vocabulary or vocabulary_of(folder, node.vocab_size)
    relevant = () if "query" in (kind, prompt) else None
    examples = [SearchExample(str(n), text, relevant) for n, text in enumerate(texts)]
    rows = encode(task, examples, vocabulary, room, node.kinds_of_segments)
    progress.begin(f"embedding {several(len(texts), 'text')}", len(texts), "texts")
    vectors = _of_rows(model, task, rows, width, vocabulary.pad, progress)
    progress.end()
    empty = sum(not text.strip() for text in texts)
    how = f"pooling {task.pooling}" + ", of length 1" * normalise
    how = (f"{sentences}" if task.answer.of_states else how) + _say_prompt(sentences)
    seconds, longest = time.perf_counter() - started, min(sentences.longest or room, room)
    notes = tuple(rows.notes_on_unknown)
    return Embedded(vectors, width, rows.num_cut, longest, seconds, empty, how, notes)


def likeness(model: Model, folder: Path, queries: Embedded, texts: Embedded) -> Iterator[Tensor]:
    """Similarities (q, n) of some queries after others with all texts, as the folder has them."""
    ways = vectors_of(folder, model.resolved)
    dot = ways is not None and ways.similarity == "dot"
    return search(Embed(similarity="dot" if dot else "cosine"), queries.of_texts, texts.of_texts)


def _say_prompt(sentences: Sentences) -> str:
    """The prompt before the texts, or those that were not taken."""
    if sentences.prompt:
        return f", after {sentences.prompt!r}"
    names = listed(sentences.prompts)
    return f", without a prompt (there are {names})" if names else ""


def _sentences(
    model: Model, folder: Path, pooling: str, prompt: str, kind: TextKind | None
) -> Sentences:
    """The way a model makes vectors, with the prompt of that name, or of that kind of text."""
    pool = next((known for known in MODES if known == pooling), None)
    if pooling and pool is None:
        raise UsageError(f"--pooling {pooling}: there is none", help=f"one of {', '.join(MODES)}")
    sentences = vectors_of(folder, model.resolved) or Sentences()
    if pool:
        sentences = replace(Sentences() if sentences.obstacle else sentences, pooling=pool)
    sentences.refuse_obstacle(folder)
    headless = MASKED_HEAD in model.untrained or not hasattr(model.heads, MASKED_HEAD)
    if sentences.is_sparse and headless:
        message = f"{folder} has no masked-LM head, whose scores sparse vectors are made of"
        raise DataError(message, help="--pooling mean takes the states of its encoder")
    if isinstance(sentences.pooling, TokenVectors):
        kind = next((known for known in get_args(TextKind) if known == prompt), kind)
    if kind:
        return replace(sentences, prompt=sentences.prompt_for(kind))
    if prompt and prompt not in sentences.prompts:
        names = [name for name, text in sentences.prompts.items() if text]
        help = f"--prompt {' or '.join(names)}" if names else "put it before each text"
        raise UsageError(f"{folder} has no prompt {prompt}", help)
    return replace(sentences, prompt=sentences.prompts[prompt]) if prompt else sentences


def _of_rows(
    model: Model, task: Embed, rows: TaskRows, width: int, pad: int, progress: Progress
) -> list[Tensor]:
    """The vector of each row, or those of its tokens; rows are read in order of their length."""
    by_length, separate = np.argsort(rows.lengths, kind="stable").tolist(), text_rows(rows)
    numbers, vectors = iter(by_length), dict[int, Tensor]()
    for part, inputs in in_batches(model, [separate[n] for n in by_length], pad):
        chosen = [*islice(numbers, len(part))]
        vectors |= zip(chosen, _vectors(model, task, rows, chosen, inputs, width), strict=True)
        progress.advance(len(part))
    return [vectors[number] for number in sorted(vectors)]


def _vectors(
    model: Model, task: Embed, rows: TaskRows, chosen: list[int], inputs: EncoderInputs, width: int
) -> list[Tensor]:
    """The vector of each of some texts (e,), perhaps sparse, or those of its tokens (k, e)."""
    mask_bs, uses = inputs.attention_mask, list[Tensor]()
    assert mask_bs is not None, "rows are padded"
    if task.answer.by_token:
        places = (slice(rows.begins[number], rows.begins[number + 1]) for number in chosen)
        uses = [torch.from_numpy(rows.uses[place]) for place in places]
        mask_bs = (pad_sequence(uses, batch_first=True) & ATTENDED > 0).to(mask_bs.device)
    states_bsh = model.read_on(inputs._replace(attention_mask=mask_bs)).last
    if isinstance(task.pooling, TokenVectors):
        vectors = model.heads[task.head_name].get_submodule("0")(states_bsh).float()
    elif isinstance(task.pooling, SparseVectors):
        head = model.heads[task.head_name]
        vectors = term_weights(states_bsh, mask_bs, head, model.encoder)
    else:
        maps = model.heads[task.head_name].children() if task.dense else ()
        vectors = pooled(task.pooling, states_bsh, mask_bs, maps)
    if task.is_sparse:
        return [text.to_sparse() for text in vectors.cpu()]
    vectors = vectors[..., :width]
    if task.normalise:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    if not uses:
        return [*vectors.cpu()]
    pairs = zip(vectors.cpu(), uses, strict=True)
    return [of_row[: len(use)][use & MATCHED > 0] for of_row, use in pairs]
