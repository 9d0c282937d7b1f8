"""``init`` of a token table from a file of word vectors.

Axes: v tokens, e width of the table.
"""

import numpy as np
import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.data.cache.progress import Silent
from bertc.data.sources.vectors import read_vectors
from bertc.data.vocab.vocabulary import BEGINS, BLANK, Vocabulary
from bertc.ir.changing.growth import FromVectors
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.weight_maps import WeightMap
from bertc.model.weights import initial_values

TABLE = f"{MAIN}.embeddings.token.weight"

TableStart = tuple[dict[str, Tensor], WeightMap, tuple[str, ...]]
"""Tensors by name, the map of them to the new network, and remarks."""


def from_vectors(init: FromVectors, resolved: Resolved, vocabulary: Vocabulary) -> TableStart:
    """The token table with the vectors of words that are tokens; the rest as it is drawn."""
    weight = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    words = _words(vocabulary)
    wanted = {spelling for word in words.values() for spelling in (word, word.lower())}
    known = read_vectors(init.path, Silent(), wanted=wanted)
    width = known.vectors.shape[1]
    if width != weight.shape[1]:
        raise DataError(
            f"{init.path} has {width} numbers for a word, and the token table {weight.shape[1]}",
            help=f"embedding={width}",
        )
    rows = {word: row for row, word in enumerate(known.words)}
    rows_by_token = {
        token: row
        for token, word in words.items()
        if (row := rows.get(word, rows.get(word.lower(), -1))) >= 0
    }
    if not rows_by_token:
        raise DataError(
            f"no word of {init.path} is a token of the vocabulary",
            help="vectors are of whole words, as in vocab=words(20k)",
        )
    table_ve = initial_values(weight, resolved.run.seed)
    table_ve[[*rows_by_token]] = torch.from_numpy(known.vectors[[*rows_by_token.values()]])
    count, size = len(rows_by_token), vocabulary.size
    note = f"vectors of {count:,} of {size:,} tokens ({count / size:.1%}), the others are random"
    return {TABLE: table_ve}, WeightMap({TABLE: TABLE}), (note,)


def _words(vocabulary: Vocabulary) -> dict[int, str]:
    """The tokens that are words, as text."""
    spelled = {
        token: vocabulary.token(token).lstrip(BEGINS + BLANK)
        for token in np.flatnonzero(vocabulary.word_start & ~vocabulary.special).tolist()
    }
    return {token: word for token, word in spelled.items() if word}
