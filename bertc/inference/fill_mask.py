"""``bertc fill``: what a trained model puts in the place of masks, or after a text.

Axes: m masks, s sequence, h hidden, v vocabulary.
"""

from pathlib import Path
from typing import get_args

import torch

from bertc.data import Vocabulary, vocabulary_of
from bertc.diagnostics import DataError, UsageError
from bertc.inference.filled import Candidate, Filled, Verdict
from bertc.interop.loading import load
from bertc.ir.learning.objective import Objective, Pretraining
from bertc.nn import EncoderInputs, Model
from bertc.objectives import tensors_of, token_logits

MASK = "[MASK]"
"""How a text may spell the mask, whatever the vocabulary calls it."""
ROWS, MOST_MASKS = 16, 256
LONGEST_ROW = 2048
"""Tokens of a row where the model has no limit of its own: memory grows with their square."""


def fill(run: Path, text: str, top: int = 5, language: str = "") -> Filled:
    """Fill the masks of ``text``, written [MASK] or as the run's tokenizer writes its mask.

    In a text longer than the model can read, each mask is seen with the text around it. What
    learned clm tells the token after the text. A discriminator says of every token whether it
    thinks it replaced, and then a text needs no mask. A model that was told languages is told that
    of the text, or none.

    Raises:
        UsageError: if the text has no mask, or one that the model cannot tell; if the model does
            not know the language.
        DataError: if the model never learned to tell tokens, or came without the head for it.
        MissingInputError: if there is no model yet.
    """
    model = load(run)
    vocabulary = vocabulary_of(run, model.resolved.encoder.vocab_size)
    return filled(model, vocabulary, text, top, language)


def filled(
    model: Model, vocabulary: Vocabulary, text: str, top: int = 5, language: str = ""
) -> Filled:
    """As ``fill``, of a model that is there already.

    Raises:
        TypeError: if the text is something else.
        UsageError, DataError: as ``fill``.
    """
    if not isinstance(text, str):
        raise TypeError(f'text is a {type(text).__name__}: a str expected, fill("a [MASK]")')
    learned = _learned(model)
    told = next((each for each in learned if each.fills), None)
    judge = next((each for each in learned if each.judges_guesses), None)
    reader = _Reader(model, vocabulary, _tongue(model, language))
    if told and told.fills == "end":
        ids, places = _beginning(vocabulary, text), [0]
    else:
        ids, places = _encode(vocabulary, text, maskless=judge is not None)
    if places and told is None:
        raise UsageError(
            "this run learned which tokens are replaced, and not what stands in their place",
            help="a text without [MASK]: each of its tokens is judged",
        )
    masks: list[tuple[Candidate, ...]] = []
    for start in range(0, len(places) if told else 0, ROWS):
        assert told is not None, "asked only where one answers"
        part = places[start : start + ROWS]
        end = told.fills == "end"
        found = reader.next(ids, told) if end else reader.masked(ids, part, told)
        masks += [_best(vocabulary, row_v, top) for row_v in found.softmax(dim=1)]
        if judge:
            for place, best in zip(part, found.argmax(dim=1).tolist(), strict=True):
                reader.filled[place] = best
    verdicts = reader.verdicts(ids, judge) if judge else ()
    guessed = told is not None and model.resolved.stages[-1].learner(told).role == "sampled"
    notes = _notes(model, bool(masks) and guessed, language)
    return Filled(text, tuple(masks), verdicts, notes)


def _learned(model: Model) -> list[Objective]:
    """The objectives with trained heads that ``fill`` can ask, of tokens first.

    Raises:
        DataError: if there is none.
    """
    terms, fresh = model.resolved.terms(), set(model.lacking())
    ranked = sorted(terms, key=lambda term: term.objective.output_rank)
    if learned := [t.objective for t in ranked if t.name not in fresh and _answers(t.objective)]:
        return learned
    if untold := [t.name for t in ranked if t.name in fresh and t.objective.fills]:
        raise DataError(
            f"the folder has no head for {untold[0]}: its guesses would be random",
            help=f'train one from it: init="FOLDER" objective={untold[0]}',
        )
    kinds = sorted({term.objective.kind for term in terms})
    *others, last = (str(each.model_fields["kind"].default) for each in _TEACHING)
    raise DataError(
        f"this run has learned {' + '.join(kinds)}, and no objective of tokens",
        help=f"fill tells what {', '.join(others)} or {last} teach",
    )


def _answers(objective: Objective | type[Pretraining]) -> bool:
    return bool(objective.fills) or objective.judges_guesses


_TEACHING = [each for each in get_args(Pretraining) if _answers(each)]


def _notes(model: Model, guessed: bool, language: str) -> tuple[str, ...]:
    notes, known = [], model.resolved.encoder.languages
    if guessed:
        notes.append("the generator tells the masks; the encoder learned to find what is replaced")
    if known and not language:
        notes.append(f"read as text of no language; --language tells it one of {', '.join(known)}")
    return tuple(notes)


def _tongue(model: Model, language: str) -> int:
    """The number of a language; one beyond the last where none is told.

    Raises:
        UsageError: if the model does not know it.
    """
    known = model.resolved.encoder.languages
    if language and language not in known:
        raise UsageError(
            f"the model does not know {language} as a language",
            help=f"it knows {', '.join(known)}" if known else "it is told none; leave it out",
        )
    return known.index(language) if language else len(known)


def _encode(vocabulary: Vocabulary, text: str, maskless: bool) -> tuple[list[int], list[int]]:
    """Token ids of a text without special tokens around it, and where its masks are."""
    mask = vocabulary.token(vocabulary.mask)
    *before, last = text.replace(MASK, mask).split(mask)
    if not before and not maskless:
        raise UsageError(f"nothing to fill: the text has no {MASK}", help=f"write {MASK} in it")
    # A space before a word belongs to the word, so one before a mask is part of what is masked.
    joined = mask.join([*(part.rstrip() for part in before), last])
    ids = _ids(vocabulary, joined)
    places = [place for place, token in enumerate(ids) if token == vocabulary.mask]
    if len(places) > MOST_MASKS:
        raise UsageError(
            f"the text has {len(places):,} masks, at most {MOST_MASKS} are filled at once",
            help="fill it in parts",
        )
    return ids, places


def _beginning(vocabulary: Vocabulary, text: str) -> list[int]:
    """Token ids of a text whose next token is asked for."""
    mask = vocabulary.token(vocabulary.mask)
    begun = text.replace(MASK, mask).rstrip().removesuffix(mask).rstrip()
    if mask in begun:
        raise UsageError(
            f"{MASK} in the middle of a text, and the model reads from left to right",
            help="end the text where the next token is asked for",
        )
    if not (ids := _ids(vocabulary, begun)):
        raise UsageError("the text is empty", help="write how it begins")
    return ids


def _ids(vocabulary: Vocabulary, text: str) -> list[int]:
    tokenizer = vocabulary.tokenizer
    tokenizer.encode_special_tokens = False
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


class _Reader:
    """A model and how it reads a text: in windows, in rows as in its last stage."""

    def __init__(self, model: Model, vocabulary: Vocabulary, tongue: int) -> None:
        self.model, self.vocabulary, self.tongue = model, vocabulary, tongue
        self.filled: dict[int, int] = {}
        """The likeliest token of each mask, by its place in the text."""
        running = model.resolved.stages[-1].format.kind == "stream"
        self.first = [] if running else [vocabulary.cls]
        self.last = [] if running else [vocabulary.sep]

    def room(self, ids: list[int]) -> int:
        """Tokens of the text in a row."""
        around = len(self.first) + len(self.last)
        most = self.model.resolved.encoder.positions.room or LONGEST_ROW
        return min(most, len(ids) + around) - around

    @torch.inference_mode()
    def masked(self, ids: list[int], places: list[int], told: Objective) -> torch.Tensor:
        """Scores (m, v) of every token at each of ``places``, by what an objective taught."""
        rows, asked, room = [], [], self.room(ids)
        for place in places:
            # As much before the mask as after, but no room left unused at an end of the text.
            start = max(0, min(place - room // 2, len(ids) - room))
            rows.append([*self.first, *ids[start : start + room], *self.last])
            asked.append(len(self.first) + place - start)
        rows_ms, asked_m = torch.tensor(rows), torch.tensor(asked)
        ask = tensors_of(told).ask
        reading, at_m = ask(self._reading(rows_ms), asked_m, self.vocabulary.mask)
        return self._scores(reading, at_m, told)

    @torch.inference_mode()
    def next(self, ids: list[int], told: Objective) -> torch.Tensor:
        """Scores (1, v) of the token after a text."""
        row_1s = torch.tensor([[*self.first, *ids[-self.room(ids) :]]])
        last_1 = torch.tensor([row_1s.shape[1] - 1])
        return self._scores(self._reading(row_1s), last_1, told)

    @torch.inference_mode()
    def verdicts(self, ids: list[int], judge: Objective) -> tuple[Verdict, ...]:
        """Of every token of a text with its masks filled, how likely it is a replacement."""
        text = [self.filled.get(place, token) for place, token in enumerate(ids)]
        head = self.model.heads[judge.head_name]
        found: list[Verdict] = []
        for start in range(0, len(text), room := self.room(ids)):
            part = text[start : start + room]
            row_1s = torch.tensor([[*self.first, *part, *self.last]])
            logits_1s = head(self.model.read(self._reading(row_1s)))
            chances = logits_1s.float()[0, len(self.first) :].sigmoid().tolist()
            found += [
                Verdict(_readable(self.vocabulary, token), chance)
                for token, chance in zip(part, chances, strict=False)
            ]
        return tuple(found)

    def _reading(self, rows_ms: torch.Tensor) -> EncoderInputs:
        tongues_ms = torch.full_like(rows_ms, self.tongue)
        return EncoderInputs(rows_ms, torch.zeros_like(rows_ms), language_ids=tongues_ms)

    def _scores(self, reading: EncoderInputs, at_m: torch.Tensor, told: Objective) -> torch.Tensor:
        name = self.model.resolved.stages[-1].learner(told).name
        hidden_msh = self.model.read(reading, name)
        states_mh = hidden_msh[torch.arange(len(at_m)), at_m]
        head = self.model.heads[told.head_name]
        return token_logits(states_mh, head, self.model.network(name)).float()


def _best(vocabulary: Vocabulary, probabilities_v: torch.Tensor, top: int) -> tuple[Candidate, ...]:
    values, ids = probabilities_v.topk(min(top, len(probabilities_v)))
    return tuple(
        Candidate(_readable(vocabulary, token_id), value)
        for token_id, value in zip(ids.tolist(), values.tolist(), strict=True)
    )


def _readable(vocabulary: Vocabulary, token_id: int) -> str:
    """The token as text; special tokens and halves of characters as the vocabulary spells them."""
    text = str(vocabulary.tokenizer.decode([token_id])).strip()
    return text if text and "\ufffd" not in text else vocabulary.token(token_id)
