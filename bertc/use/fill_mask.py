"""``bertc fill``: a model's predictions for masks, or for the token after a text.

Axes: m masks, w rows of the token table, v vocabulary.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from bertc.base.diagnostics import InNotebooks, Table, UsageError, as_data_error
from bertc.model import Model
from bertc.run.evaluation.word_networks import GUESSING, MaskedRow, learned_terms, masked_scores
from bertc.run.models.loading import load
from bertc.run.models.vectors import in_batches
from bertc.text.vocab.vocabulary import FAILS, Vocabulary, vocabulary_of

MASK = "[MASK]"
"""Spelling of the mask in a text, accepted beside the vocabulary's own."""
LONGEST_ROW = 2048
"""Maximum row length in tokens if the model sets none; memory grows with its square."""


@dataclass(frozen=True)
class Candidate:
    """A token and its probability, between 0 and 1."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filled(InNotebooks):
    """The likeliest tokens for each mask of a text, or after it, in the order of the text."""

    text: str
    masks: tuple[tuple[Candidate, ...], ...]
    notes: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The answer as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1, ensure_ascii=False)

    def tables(self) -> list[Table]:
        """The candidates, a table for each mask."""
        return [
            Table((f"mask {n}", "probability"), [(c.token, f"{c.probability:.2%}") for c in tokens])
            for n, tokens in enumerate(self.masks, 1)
        ]

    def summary(self) -> str:
        """Text: per mask a block of candidates, likeliest first."""
        lines = list[str]()
        for number, candidates in enumerate(self.masks, 1):
            lines += [f"mask {number}:"] * (len(self.masks) > 1)
            lines += [f"{c.probability:7.2%}  {c.token}" for c in candidates]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def fill(run: Path, text: str, top: int = 5, language: str = "") -> Filled:
    """Predict the masks of ``text``, written [MASK] or as the run's tokenizer spells its mask."""
    model = load(run)
    vocabulary = vocabulary_of(run, model.resolved.encoder.vocab_size)
    return fill_in(model, vocabulary, text, top, language)


def fill_in(model: Model, vocab: Vocabulary, text: str, top: int = 5, language: str = "") -> Filled:
    """Predict masks with a loaded model; otherwise as ``fill``."""
    if not isinstance(text, str):
        raise TypeError(f'text is a {type(text).__name__}: a str expected, fill("a [MASK]")')
    if top < 1:
        raise UsageError(f"top is {top}", help="1 or more candidates for each mask")
    learned = learned_terms(model)
    filler = next((objective for objective in learned if objective.fills in GUESSING), None)
    if filler is None:
        message = "this run learned to detect replaced tokens, not to predict masked ones"
        raise UsageError(message, help="a run with a generator, or one that learned mlm")
    known = model.resolved.encoder.languages
    if language and language not in known:
        remedy = f"it knows {', '.join(known)}" if known else "it has no languages: leave it out"
        raise UsageError(f"the model does not know {language} as a language", help=remedy)
    end = filler.fills == "end"
    ids, places = (_beginning(vocab, text), [-1]) if end else _encode(vocab, text)
    spoken = known.index(language) if language else None
    masks: list[tuple[Candidate, ...]] = []
    for part, inputs in in_batches(model, _rows(model, vocab, ids, places), vocab.pad, spoken):
        scores_mw = masked_scores(model, filler, part, inputs, vocab.mask)
        scores_mv = scores_mw[:, : vocab.size]  # rows that only fill the table are no tokens
        masks += [_best(vocab, row_v, top) for row_v in scores_mv.softmax(dim=1)]
    guessed = model.resolved.stages[-1].learner(filler).role == "sampled"
    notes = []
    if masks and guessed:
        notes.append("the generator predicts the masks; the encoder reads its guesses")
    if known and not language:
        notes.append(f"read without a language; set --language to one of {', '.join(known)}")
    return Filled(text, tuple(masks), tuple(notes))


def _encode(vocabulary: Vocabulary, text: str) -> tuple[list[int], list[int]]:
    """Token ids of a text without special tokens, and the positions of its masks."""
    mask = vocabulary.token(vocabulary.mask)
    if mask not in (text := text.replace(MASK, mask)):
        raise UsageError(f"nothing to fill: the text has no {mask}", help=f"write {mask} in it")
    ids = _ids(vocabulary, text)
    return ids, [place for place, token in enumerate(ids) if token == vocabulary.mask]


def _beginning(vocabulary: Vocabulary, text: str) -> list[int]:
    """Token ids of a text to be continued."""
    mask = vocabulary.token(vocabulary.mask)
    begun = text.replace(MASK, mask).rstrip().removesuffix(mask).rstrip()
    if mask in begun:
        message = f"{mask} inside the text, but this model predicts only the next token"
        raise UsageError(message, help="end the text before the token to predict")
    if not (ids := _ids(vocabulary, begun)):
        raise UsageError("the text is empty", help="write how it begins")
    return ids


def _ids(vocabulary: Vocabulary, text: str) -> list[int]:
    tokenizer = vocabulary.tokenizer
    tokenizer.encode_special_tokens = False
    with as_data_error(*FAILS):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _rows(
    model: Model, vocabulary: Vocabulary, ids: list[int], places: list[int]
) -> list[MaskedRow]:
    """A row of the last stage's layout around each place; around -1 one that ends with the text."""
    running = model.resolved.stages[-1].format.kind == "stream"
    first, last = ([], []) if running else ([vocabulary.cls], [vocabulary.sep])
    around = len(first) + len(last)
    room = min(model.resolved.encoder.room or LONGEST_ROW, len(ids) + around) - around
    rows = []
    for place in places:
        # As much context before the mask as after it, but rows are filled at the ends.
        start = max(0, min(place - room // 2, len(ids) - room)) if place >= 0 else len(ids) - room
        row = (*first, *ids[start : start + room], *(last if place >= 0 else ()))
        at = len(first) + place - start if place >= 0 else len(row) - 1
        rows.append(MaskedRow(row, (0,) * len(row), 0, place, at))
    return rows


def _best(vocabulary: Vocabulary, probabilities_v: Tensor, top: int) -> tuple[Candidate, ...]:
    """The likeliest tokens as text."""
    values, ids = probabilities_v.topk(min(top, len(probabilities_v)))
    return tuple(map(Candidate, map(vocabulary.plain, ids.tolist()), values.tolist()))
