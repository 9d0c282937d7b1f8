"""``init`` of a token table: from a file of word vectors, or from a network's states of each token.

Axes: v tokens, h hidden width of the network, e width of the table, b tokens at once.
"""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertc.compress import WeightMap
from bertc.data import Silent, Vocabulary, differing_token, vocabulary_of
from bertc.data.sources.vectors import read_vectors
from bertc.data.vocab.template import fill_template, template_of
from bertc.data.vocab.vocabulary import BEGINS, BLANK
from bertc.diagnostics import DataError
from bertc.evaluation.device import placed
from bertc.interop.loading import load
from bertc.ir.changing.growth import FromTokens, FromVectors
from bertc.ir.network.bag import BagBody
from bertc.ir.program.model import model_weights
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.nn import EncoderInputs
from bertc.nn.weights import initial_values

TABLE = f"{MAIN}.embeddings.token.weight"
SCALE = f"{MAIN}.embeddings.scale.weight"
ROWS_OF_ONE_TOKEN = 1024

TableStart = tuple[dict[str, Tensor], WeightMap, tuple[str, ...]]
"""Tensors by name, the map of them to the new network, and remarks."""


def from_vectors(init: FromVectors, resolved: Resolved, vocabulary: Vocabulary) -> TableStart:
    """The token table with the vectors of words that are tokens; the rest as it is drawn.

    Raises:
        MissingInputError: there is no such file.
        DataError: a line is broken; vectors have another width; none is of a token.
    """
    weight = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    words = _words(vocabulary)
    wanted = {spelling for word in words.values() for spelling in (word, word.lower())}
    known = read_vectors(init.path, Silent(), wanted=wanted)
    width = known.vectors.shape[1]
    if width != weight.shape[1]:
        raise DataError(
            f"{init.path} has {width} numbers for a word, and the token table {weight.shape[1]}",
            help=f"embedding={width}, or body=bag({width})",
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


def from_tokens(init: FromTokens, resolved: Resolved, vocabulary: Vocabulary | None) -> TableStart:
    """The table of a bag from a network's states of each token alone (model2vec, distill).

    Raises:
        MissingInputError, DataError, UnsafeError: as ``load``; the network reads other tokens, or
            is narrower than the bag.
    """
    body = resolved.encoder
    assert isinstance(body, BagBody), "the checks see to that"
    folder = Path(init.path)
    states_vh, theirs = token_states(folder, resolved.run.device)
    if vocabulary is not None and (differing := differing_token(theirs, vocabulary)):
        number, there, here = differing
        raise DataError(
            f"token {number} is {there!r} in {folder} and {here!r} here",
            help="leave vocab out, and the bag reads with the vocabulary of init",
        )
    if states_vh.shape[1] < body.hidden:
        raise DataError(
            f"the states of {folder} are {states_vh.shape[1]} wide, less than the {body.hidden} "
            "of the bag",
            help=f"body=bag({states_vh.shape[1]})",
        )
    plain_v = torch.from_numpy(~theirs.special)
    components_ve, share = principal_components(states_vh[plain_v], body.hidden)
    table_ve = torch.zeros(body.vocab_size, body.hidden)
    table_ve[: len(states_vh)][plain_v] = components_ve
    # The tokens of a vocabulary stand in the order of their frequency, by Zipf's law about 1 / n.
    scale_v1 = torch.log1p(torch.arange(1, body.vocab_size + 1))[:, None]
    tensors = {TABLE: table_ve, SCALE: scale_v1}
    if body.bag.pool == "mean":
        tensors = {TABLE: table_ve * scale_v1}
    note = f"{body.hidden} principal components have {share:.1%} of the variance of its states"
    return tensors, WeightMap({name: name for name in tensors}), (note,)


@torch.inference_mode()
def token_states(folder: Path, device: str) -> tuple[Tensor, Vocabulary]:
    """The mean last state (v, h) of each token alone between special ones, and the vocabulary."""
    model = load(folder)
    body = model.resolved.encoder
    vocabulary = vocabulary_of(folder, body.vocab_size)
    placed(model, device)
    parts = fill_template(template_of(vocabulary), [0], None)
    before, after = ([*ids] for ids, _ in (parts[0], parts[2]))
    states = []
    for begin in range(0, vocabulary.size, ROWS_OF_ONE_TOKEN):
        tokens = range(begin, min(begin + ROWS_OF_ONE_TOKEN, vocabulary.size))
        rows_bs = torch.tensor([[*before, token, *after] for token in tokens])
        inputs = EncoderInputs(rows_bs.to(next(model.parameters()).device))
        states.append(model.read(inputs).float().mean(dim=1).cpu())
    return torch.cat(states), vocabulary


def principal_components(states_vh: Tensor, width: int) -> tuple[Tensor, float]:
    """States (v, e) on their ``width`` main axes around their mean, and the share of variance.

    The largest coordinate of each axis is positive, so that signs do not depend on the machine.
    """
    centred_vh = (states_vh - states_vh.mean(dim=0)).double()
    variances_h, axes_hh = torch.linalg.eigh(centred_vh.T @ centred_vh)
    axes_he = axes_hh.flip(1)[:, :width]
    largest_1e = axes_he.abs().argmax(dim=0, keepdim=True)
    axes_he = axes_he * axes_he.gather(0, largest_1e).sign()
    share = float(variances_h.flip(0)[:width].sum() / variances_h.sum().clamp(min=math.ulp(1)))
    return (centred_vh @ axes_he).float(), share
