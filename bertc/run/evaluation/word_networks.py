"""Trained networks that predict masked words for copies, or make vectors to mine negatives.

Axes: b rows, s tokens of a row, k likeliest, v vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.ir.learning import PRETRAINING, Objective
from bertc.ir.terms.node import is_answerable
from bertc.learn.objectives import tensors_of, token_logits
from bertc.model import EncoderInputs, Model
from bertc.run.models.loading import load, place_on_device, weights_digest
from bertc.run.models.vectors import TextRow, embed, in_batches, likeness
from bertc.tasks.examples.copies import SplitText
from bertc.tasks.examples.task_rows import fill_template, template_of
from bertc.text.cache.store import Progress
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of

LONGEST_ROW = 512
"""Tokens of the longest row for a network that sets no limit."""
MASKED_TEXTS_AT_ONCE = 256
GUESSING = ("masks", "end")
"""Kinds of what an objective fills, of those that predict tokens."""


@dataclass(frozen=True)
class MaskedRow(TextRow):
    """A row with a mask at ``at``, in the place of a word of one of the texts."""

    text: int
    place: int
    at: int


class TrainedNetworks:
    """Networks of run or model folders, on one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._networks: dict[str, tuple[Model, Vocabulary]] = {}

    def digest(self, folder: str) -> str:
        """sha256 of the weights in a folder."""
        return weights_digest(Path(folder))

    def likeness(
        self, folder: str, queries: Sequence[str], passages: Sequence[str], progress: Progress
    ) -> Iterator[NDArray[np.float32]]:
        """Similarities (q, c) of some queries after others with all passages."""
        model, _ = self._loaded(folder)
        place = Path(folder)
        passage_vectors = embed(
            model, place, passages, normalise=False, kind="document", progress=progress
        )
        asked = embed(model, place, queries, normalise=False, kind="query", progress=progress)
        progress.begin(f"searching with {folder}", len(queries), "texts")
        for likeness_qc in likeness(model, place, asked, passage_vectors):
            yield likeness_qc.numpy()
            progress.advance(len(likeness_qc))
        progress.end()

    def candidates(
        self,
        folder: str,
        texts: Sequence[SplitText],
        places: Sequence[Sequence[int]],
        number: int,
        progress: Progress,
    ) -> Iterator[Mapping[int, tuple[str, ...]]]:
        """The likeliest words at each of some places, for words of one piece; by text.

        The text follows its masked copy as a second one, so that the masked word is known to the
        network (TinyBERT, data_augmentation.py); words that no longer fit in a row have none.
        """
        model, vocabulary = self._loaded(folder)
        reader = _MaskedWords(model, vocabulary, _predicting(model, folder), number)
        progress.begin(f"reading masked words with {folder}", len(texts), "rows")
        for begin in range(0, len(texts), MASKED_TEXTS_AT_ONCE):
            part = slice(begin, begin + MASKED_TEXTS_AT_ONCE)
            yield from reader.read(texts[part], places[part])
            progress.advance(len(texts[part]))
        progress.end()

    def _loaded(self, folder: str) -> tuple[Model, Vocabulary]:
        """The network of a folder, which is kept, and its vocabulary."""
        if folder not in self._networks:
            model = load(Path(folder))
            place_on_device(model, self.device)
            vocabulary = vocabulary_of(Path(folder), model.resolved.encoder.vocab_size)
            self._networks[folder] = model, vocabulary
        return self._networks[folder]


def _predicting(model: Model, folder: str) -> Objective:
    fresh, body = set(model.lacking()), model.resolved.encoder
    for term in model.resolved.terms():
        objective = term.objective
        if objective.fills == "masks" and is_answerable(objective, body) and term.name not in fresh:
            return objective
    help = 'replace(MODEL) names a network that learned mlm, as in replace("runs/bert")'
    raise DataError(f"{folder} has no head that predicts masked tokens", help)


class _MaskedWords:
    """A network that predicts masked words by the head of ``term``."""

    def __init__(self, model: Model, vocabulary: Vocabulary, term: Objective, number: int) -> None:
        self.model, self.vocabulary, self.term, self.number = model, vocabulary, term, number
        self.template = template_of(vocabulary)
        self.room = model.resolved.encoder.room or LONGEST_ROW
        self.words: dict[int, str] = {}

    def read(
        self, texts: Sequence[SplitText], places: Sequence[Sequence[int]]
    ) -> list[dict[int, tuple[str, ...]]]:
        """Candidates of some texts, by place."""
        encode_batch = self.vocabulary.tokenizer.encode_batch
        encodings = encode_batch([text.text for text in texts], add_special_tokens=False)
        rows: list[MaskedRow] = []
        read = zip(texts, places, encodings, strict=True)
        for number, (text, words, encoding) in enumerate(read):
            pieces = _pieces(text, encoding.offsets)
            single = [(place, pieces[place][0]) for place in words if len(pieces[place]) == 1]
            masked = partial(self._row, number, encoding.ids)
            rows += [row for place, piece in single if (row := masked(place, piece))]
        rows.sort(key=lambda row: len(row.token_ids))
        candidates: list[dict[int, tuple[str, ...]]] = [{} for _ in texts]
        for part, inputs in in_batches(self.model, rows):
            scores_bv = masked_scores(self.model, self.term, part, inputs, self.vocabulary.mask)
            best_bk = scores_bv.topk(min(self.number, scores_bv.shape[1])).indices.tolist()
            by_row = [tuple(filter(None, map(self._word, best_k))) for best_k in best_bk]
            for row, likely in zip(part, by_row, strict=True):
                if likely:
                    candidates[row.text][row.place] = likely
        return candidates

    def _row(self, text: int, ids: list[int], place: int, piece: int) -> MaskedRow | None:
        """The text with a mask, and after it the text itself if both fit."""
        masked = [*ids[:piece], self.vocabulary.mask, *ids[piece + 1 :]]
        for second in (ids, None):
            specials = self.template.specials(2 if second else 1)
            if len(masked) + len(second or ()) + specials <= self.room:
                parts = zip(*fill_template(self.template, masked, second), strict=True)
                ids_row, segments_row = (tuple(chain.from_iterable(part)) for part in parts)
                at = len(self.template.before[0]) + piece
                return MaskedRow(ids_row, segments_row, text, place, at)
        return None

    def _word(self, token: int) -> str:
        """The word that a token is; empty if it is special, or a piece within one."""
        if token not in self.words:
            is_word = self.vocabulary.word_start[token] and not self.vocabulary.special[token]
            is_word = is_word and token != self.vocabulary.unk
            text = self.vocabulary.tokenizer.decode([token]).strip() if is_word else ""
            self.words[token] = text if "\ufffd" not in text else ""
        return self.words[token]


def learned_terms(model: Model) -> list[Objective]:
    """Objectives with trained heads that say something of tokens, those that predict them first."""
    body, fresh = model.resolved.encoder, set(model.lacking())
    # It may have read in another direction in earlier stages.
    terms = [term for term in model.resolved.terms() if is_answerable(term.objective, body)]
    ranked = sorted(terms, key=lambda term: term.objective.states.rank)
    if learned := [t.objective for t in ranked if t.name not in fresh and t.objective.fills]:
        return learned
    if untold := [t.name for t in ranked if t.name in fresh and t.objective.fills in GUESSING]:
        message = f"the folder has no head for {untold[0]}: its guesses would be random"
        raise DataError(message, f'train the head: init="FOLDER" objective={untold[0]}')
    kinds = sorted({term.objective.kind for term in terms})
    *names, last = (name for name, kind in PRETRAINING.items() if kind.fills)
    message = f"this run was trained with {' + '.join(kinds)}, which predicts no tokens"
    raise DataError(message, f"fill needs a model trained with {', '.join(names)} or {last}")


@torch.inference_mode()
def masked_scores(
    model: Model, term: Objective, rows: Sequence[MaskedRow], inputs: EncoderInputs, mask: int
) -> Tensor:
    """Scores (b, v) at the place of each row, by the head of an objective."""
    at_b = torch.tensor([row.at for row in rows], device=inputs.token_ids.device)
    return token_scores(model, term, *tensors_of(term).ask(inputs, at_b, mask))


def token_scores(
    model: Model, term: Objective, inputs: EncoderInputs, at_n: Tensor, row_n: Tensor | None = None
) -> Tensor:
    """Scores (n, v) by the head of an objective, at positions of rows; None: one of each row."""
    name = model.resolved.stages[-1].learner(term).name
    row_n = torch.arange(len(at_n)) if row_n is None else row_n
    states_nh = model.read_for(term, inputs, name)[row_n, at_n]
    return token_logits(states_nh, model.heads[term.head_name], model.network(name)).float()


def _pieces(text: SplitText, offsets: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The tokens of each word of a text, by the characters that they stand for."""
    pieces: list[list[int]] = [[] for _ in text.spans]
    word = 0
    for token, (begin, end) in enumerate(offsets):
        while word < len(text.spans) and text.spans[word][1] <= begin:
            word += 1
        if word < len(text.spans) and end > text.spans[word][0]:
            pieces[word].append(token)
    return pieces
