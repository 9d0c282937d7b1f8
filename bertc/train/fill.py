"""``bertc fill``: what a trained model puts in the place of masks.

Axes: m masks, s sequence, h hidden, v vocabulary.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bertc.data import Vocabulary
from bertc.diagnostics import DataError, UsageError
from bertc.interop import load
from bertc.ir.objective import Mlm
from bertc.ir.resolved import learner
from bertc.nn import Model, Reading
from bertc.objectives import mlm_logits
from bertc.train.predict import vocabulary_of

MASK = "[MASK]"
"""How a text may spell the mask, whatever the vocabulary calls it."""
ROWS = 16


@dataclass(frozen=True)
class Candidate:
    """A token and its probability."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """The likeliest tokens for each mask of a text, in the order of the text."""

    text: str
    masks: tuple[tuple[Candidate, ...], ...]

    def as_json(self) -> str:
        """All of it as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1, ensure_ascii=False)

    def summary(self) -> str:
        """A block of lines a mask, a candidate a line, the likeliest first."""
        blocks = []
        for index, candidates in enumerate(self.masks):
            heading = [f"mask {index + 1}:"] if len(self.masks) > 1 else []
            lines = (f"{c.probability:7.2%}  {c.token}" for c in candidates)
            blocks.append("\n".join([*heading, *lines]))
        return "\n\n".join(blocks)


def fill(run: Path, text: str, top: int = 5, language: str = "") -> Filled:
    """Fill the masks of ``text``, written [MASK] or as the run's tokenizer writes its mask.

    In a text longer than the model can read, each mask is seen with the text around it. A model
    that was told languages is told that of the text, or none.

    Raises:
        UsageError: if the text has no mask, or the model does not know the language.
        DataError: if the model never learned to fill masks.
        MissingInputError: if there is no model yet.
    """
    model = load(run)
    if not any(term.objective.kind in ("mlm", "tlm") for term in model.resolved.terms()):
        raise DataError(
            "this run has not learned to fill masks",
            help="that is what objective=mlm, tlm, or rtd with a generator network teach",
        )
    known = model.resolved.encoder.languages
    if language and language not in known:
        raise UsageError(
            f"the model does not know {language} as a language",
            help=f"it knows {', '.join(known)}" if known else "it is told none; leave it out",
        )
    tongue = known.index(language) if language else len(known)
    vocabulary = vocabulary_of(run)
    ids, places = _encode(vocabulary, text)
    room = (model.resolved.encoder.positions.room or len(ids) + 2) - 2
    masks: list[tuple[Candidate, ...]] = []
    for start in range(0, len(places), ROWS):
        part = places[start : start + ROWS]
        probabilities_mv = _probabilities(model, vocabulary, ids, part, room, tongue)
        masks += [_best(vocabulary, row_v, top) for row_v in probabilities_mv]
    return Filled(text, tuple(masks))


def _encode(vocabulary: Vocabulary, text: str) -> tuple[list[int], list[int]]:
    """Token ids of a text without special tokens around it, and where its masks are."""
    mask = vocabulary.token(vocabulary.mask)
    *before, last = text.replace(MASK, mask).split(mask)
    if not before:
        raise UsageError(f"nothing to fill: the text has no {MASK}", help=f"write {MASK} in it")
    tokenizer = vocabulary.tokenizer
    tokenizer.encode_special_tokens = False
    # A space before a word belongs to the word, so one before a mask is part of what is masked.
    joined = mask.join([*(part.rstrip() for part in before), last])
    ids: list[int] = tokenizer.encode(joined, add_special_tokens=False).ids
    return ids, [place for place, token in enumerate(ids) if token == vocabulary.mask]


@torch.inference_mode()
def _probabilities(
    model: Model, vocabulary: Vocabulary, ids: list[int], places: list[int], room: int, tongue: int
) -> torch.Tensor:
    """Probabilities (m, v) of every token at each of ``places``."""
    rows, asked = [], []
    for place in places:
        # As much before the mask as after, but no room left unused at an end of the text.
        start = max(0, min(place - room // 2, len(ids) - room))
        rows.append([vocabulary.cls, *ids[start : start + room], vocabulary.sep])
        asked.append(1 + place - start)
    name = learner(Mlm(), model.resolved.generator)
    network, rows_ms = model.network(name), torch.tensor(rows)
    tongues_ms = torch.full_like(rows_ms, tongue)
    hidden_msh = model.read(Reading(rows_ms, language_ids=tongues_ms), name)
    hidden_mh = hidden_msh[torch.arange(len(rows)), torch.tensor(asked)]
    logits_mv = mlm_logits(network.node, hidden_mh, model.head_weights(name))
    return logits_mv.float().softmax(dim=1)


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
