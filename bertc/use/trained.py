"""A trained model for Python users: tokenizer, mask filling and predictions.

Axes: b batch, s tokens of the longest text.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertc.base.diagnostics import UsageError
from bertc.hub.families.config import place_of_cls
from bertc.hub.folders import replacing
from bertc.hub.leaving.exporting import save_tokenizer
from bertc.ir.learning import AnyTask, Choice, Classify, NamedSpans, Span, Tags, TextKind
from bertc.ir.program import Resolved
from bertc.model import EncoderInputs, Model
from bertc.run.evaluation.task_lookup import is_imported, task_of
from bertc.run.models.loading import load as load_model
from bertc.run.models.vectors import embed, padded, text_rows
from bertc.run.records.calibration import fit_of_head
from bertc.tasks.examples.encode import encode
from bertc.tasks.layouts import example
from bertc.text.sources.cells import PART
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of
from bertc.use.attention import AttentionMaps, see_maps
from bertc.use.fill_mask import Filled, fill_in
from bertc.use.graph import Graph, graph_of
from bertc.use.predict import answer_examples, of_any_number

Text = str | tuple[str, str]
LONGEST_SEEN = 128
"""Most tokens of a text whose attention is shown."""
LONGEST = 1 << 20
"""Maximum row length in tokens if positions set no limit."""


class Tokenizer:
    """Callable that encodes texts as inputs of ``Model.encode``, as the model's own tasks do."""

    def __init__(self, vocabulary: Vocabulary, resolved: Resolved) -> None:
        self.vocabulary = vocabulary
        self._segments = resolved.encoder.kinds_of_segments
        self.longest = resolved.encoder.room or LONGEST
        """Maximum row length in tokens, special tokens included."""

    def __call__(self, texts: Text | Sequence[Text]) -> dict[str, Tensor]:
        """Encode texts, or pairs of texts, with special tokens, padded at the end.

        ``token_ids`` and ``segment_ids`` are (b, s) int64, ``attention_mask`` is (b, s) bool and
        true at tokens: ``model.encode(**tokenizer(texts))``. Longer texts are cut at the end,
        or where the tokenizer says so at the beginning.
        """
        single = isinstance(texts, str | tuple)
        pairs = [_pair(text) for text in ([texts] if single else texts)]
        examples = [example.TextExample(str(n), text, None) for n, text in enumerate(pairs)]
        rows = encode(Classify(), examples, self.vocabulary, self.longest, self._segments)
        names = ("token_ids", "segment_ids", "attention_mask")
        return dict(zip(names, padded(text_rows(rows), self.vocabulary.pad), strict=True))


class Trained(Model):
    """A model with the folder it was loaded from; the vocabulary is read on first use."""

    def __init__(self, resolved: Resolved, folder: Path) -> None:
        super().__init__(resolved)
        self.folder = folder

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer for inputs of ``encode``.

        Raises:
            MissingInputError: if the folder has no vocabulary.
        """
        vocabulary = vocabulary_of(self.folder, self.resolved.encoder.vocab_size)
        return Tokenizer(vocabulary, self.resolved)

    def attention(self, text: str, pair: str = "") -> AttentionMaps:
        """The attention of every head over a text, or a pair: maps (heads, tokens, tokens).

        Raises:
            DataError: if the network has no heads.
            UsageError: if the text has no tokens.
        """
        inputs = self.tokenizer([(text, pair) if pair else text])
        if not text.strip() or inputs["token_ids"].shape[1] < 2:
            raise UsageError("the text has no tokens", help="write a few words")
        names = ("token_ids", "segment_ids")
        ids_bs, segments_bs = (inputs[name][:, :LONGEST_SEEN] for name in names)
        _, maps = see_maps(self, EncoderInputs(ids_bs, segments_bs))
        tokens = map(self.tokenizer.vocabulary.readable, ids_bs[0].tolist())
        is_cut = inputs["token_ids"].shape[1] > LONGEST_SEEN
        return AttentionMaps((*tokens,), tuple(map_bnqk[0] for map_bnqk in maps), is_cut)

    def graph(self, *, layers: bool = False) -> Graph:
        """The forward pass as a module with plain tensors in and out, for other runtimes.

        Raises:
            DataError: if no graph for rows of any length can say it; names the setting. With
                ``layers``, for the states of all of them, it says no more than bertc reads.
        """
        place = place_of_cls(self.tokenizer.vocabulary, self.resolved.encoder.causal)
        graph = graph_of(self, place, layers=layers)
        if not layers:
            graph.refuse_unsayable()
        return graph

    def save_tokenizer(self, folder: Path, beside: Mapping[str, bytes]) -> None:
        """Write the tokenizer as transformers reads it, with other files by name, in a folder.

        A folder that this wrote before is replaced, all at once.

        Raises:
            MissingInputError: if the model has no vocabulary.
            UsageError: if the folder holds something else already.
            CannotWriteError: if the disk is full or the folder cannot be written.
        """
        with replacing(folder) as fresh:
            save_tokenizer(self.tokenizer.vocabulary, fresh, self.resolved)
            for name, content in beside.items():
                (fresh / name).write_bytes(content)

    def fill(self, text: str, top: int = 5, language: str = "") -> Filled:
        """The likeliest tokens for each [MASK] of a text, as ``bertc fill``.

        Raises:
            TypeError: if ``text`` is no str.
            UsageError: if the text has no mask, or the language is unknown to the model.
            DataError: if no objective of the model predicts tokens.
        """
        return fill_in(self, self.tokenizer.vocabulary, text, top, language)

    def embed(
        self,
        texts: Sequence[str],
        pooling: str = "",
        *,
        normalise: bool | None = None,
        prompt: str = "",
        kind: TextKind | None = None,
        width: int = 0,
    ) -> NDArray[np.float32]:
        """A vector for each text (texts, width), as ``bertc embed``.

        ``kind`` takes the prompt of queries or documents, if there is one. Vectors of tokens are
        (texts, tokens, width), 0 after the last token of a text.

        Raises:
            TypeError: if ``texts`` is a str.
            UsageError, DataError: of the pooling, the prompt or the folder.
        """
        _refuse_one(texts, "texts", "embed([text])")
        return embed(
            self, self.folder, texts, pooling, normalise=normalise, prompt=prompt, kind=kind,
            width=width, vocabulary=self.tokenizer.vocabulary,
        ).vectors  # fmt: skip

    def predict(self, rows: Sequence[Any], task: str = "") -> list[dict[str, Any]]:
        """Answers of a fine-tuned model to each row, as ``bertc predict`` prints them.

        A row is a text, or a tuple of the task's inputs: (text, pair) or (passage, question); for
        choices (question, [choice, ...]), after the passage if there is one; for tags a list of
        words, or words separated by spaces. It may also be a dict of the task's columns. ``task``
        is a title, needed if there are several.

        Raises:
            TypeError: if a row is something else.
            UsageError: if the model has learned no task, or several and ``task`` is empty.
        """
        stage, chosen = task_of(self.resolved, task)
        _refuse_one(rows, "rows", "predict([row])")
        task_read = of_any_number(chosen)
        examples = [_example(task_read, number, row) for number, row in enumerate(rows)]
        if not examples:
            return []
        vocabulary, fit = self.tokenizer.vocabulary, fit_of_head(self.folder, self, chosen.title)
        return [*answer_examples(self, stage, chosen, examples, vocabulary, fit=fit).each()]


def load(folder: Path) -> Trained:
    """Load the model of a run or of a model folder, in evaluation mode."""
    loaded = load_model(folder)
    with torch.device("meta"):
        model = Trained(loaded.resolved, folder)
    model.load_state_dict(loaded.state_dict(), assign=True)
    model.untrained = loaded.untrained
    return model.eval()


def _refuse_one(rows: object, name: str, instead: str) -> None:
    """Refuse a text or a row of columns, whose letters and keys would be taken for rows."""
    if isinstance(rows, str | dict):
        raise TypeError(f"{name} is a {type(rows).__name__}: a list expected, {instead}")


def _pair(text: Any) -> tuple[str, ...]:
    texts = (text,) if isinstance(text, str) else text
    if not isinstance(texts, tuple) or len(texts) > 2 or not all(isinstance(t, str) for t in texts):
        raise TypeError(f"{_shown(text)} is neither a text nor a pair of texts")
    return texts


def _example(task: AnyTask, number: int, row: Any) -> example.Example:
    key, answer, written, gap = str(number), task.answer, row, " " * getattr(task, "letters", False)
    if isinstance(row, dict):
        row = _inputs(task, number, row)
    if isinstance(answer, Tags | NamedSpans):
        split = str.split if isinstance(answer, Tags) else PART.findall
        words = split(gap.join(row)) if isinstance(row, str) else row
        if not isinstance(words, list | tuple) or not _are_texts(words):
            raise _unlike(task, number, written)
        return example.TaggedExample(key, tuple(words), (), row if isinstance(row, str) else "")
    parts = (row,) if isinstance(row, str) else row
    if not isinstance(parts, tuple):
        raise _unlike(task, number, written)
    if isinstance(answer, Choice):
        *texts, choices = parts
        listed = isinstance(choices, list | tuple) and 2 <= len(choices) <= answer.most
        if len(parts) != len(task.reads) or not listed or not _are_texts([*texts, *choices]):
            raise _unlike(task, number, written)
        passage = texts[0] if len(texts) > 1 else ""
        return example.ChoiceExample(key, passage, texts[-1], tuple(choices), None)
    either = is_imported(task) and len(parts) in (1, 2) and not isinstance(answer, Span)
    if not _are_texts(parts) or not (either or len(parts) == len(task.reads)):
        raise _unlike(task, number, written)
    if isinstance(answer, Span):
        return example.QuestionExample(key, parts[0], parts[1], (), None)
    return example.TextExample(key, parts, None)


def _inputs(task: AnyTask, number: int, row: dict[str, Any]) -> Any:
    """The inputs of a task from a row by the names of its columns."""
    inputs, cells = [], {normalize("NFC", str(name)): cell for name, cell in row.items()}
    try:
        for argument in task.reads:
            match getattr(task, argument, argument):
                case str(name) | (name,):
                    inputs.append(cells[normalize("NFC", name)])
                case names:
                    inputs.append([cells[normalize("NFC", name)] for name in names])
    except KeyError as missing:
        has = ", ".join(map(str, row)) or "no columns"
        expected = f"{task.title} expects the column {missing.args[0]}"
        raise TypeError(f"row {number}: {expected}, not {has}") from None
    return inputs[0] if isinstance(task.answer, Tags | NamedSpans) else tuple(inputs)


def _are_texts(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _unlike(task: AnyTask, number: int, row: Any) -> TypeError:
    most = f" of 2 to {task.answer.most} texts" if isinstance(task.answer, Choice) else ""
    reads = f"({', '.join(task.reads)}{most})" if len(task.reads) > 1 else task.reads[0]
    return TypeError(f"row {number}: {task.title} expects {reads}, not {_shown(row)}")


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"[:80]
