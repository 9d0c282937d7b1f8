"""The token tables of ``init`` carried to the tokens of another vocabulary."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.ir.address import key
from bertc.ir.base import Weight
from bertc.ir.changing.growth import Focus, FromOther, Redrawn
from bertc.ir.learning.optimizer import Optimizer, moments_of
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.vocabulary import table_rows
from bertc.tasks.corpus import PreparedCorpus
from bertc.text.cache.store import Silent
from bertc.text.vocab.changed import tokens_a_word
from bertc.text.vocab.static_vectors import vectors_of_text, vectors_of_words
from bertc.text.vocab.token_rows import TokenSums, token_sums
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of
from bertc.text.vocabularies import first_pieces

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Carrying:
    """Rows of new tables (``rows``) from those of old ones.

    Old rows from ``spare`` on belong to no token; they are carried to new ones of that sort.
    """

    sums: TokenSums
    rows: int
    spare: int
    seed: int
    notes: tuple[str, ...]

    def weights(self, old: Resolved, tensors: Tensors) -> dict[str, Tensor]:
        """All tensors, those with rows for tokens carried; rows without a source are drawn."""
        table = {weight.name: weight for weight in model_weights(old)}
        return {name: self._carry(t, table.get(name), drawn=True) for name, t in tensors.items()}

    def moments(self, old: Resolved, rule: Optimizer, tensors: Tensors) -> dict[str, Tensor]:
        """Moments as the weights that they are of; those of drawn rows are zero."""
        table = moments_of(rule, model_weights(old))
        return {name: self._carry(t, table.get(name), drawn=False) for name, t in tensors.items()}

    def _carry(self, tensor: Tensor, weight: Weight | None, drawn: bool) -> Tensor:
        if weight is None or "vocab" not in weight.axes:
            return tensor
        old = tensor.movedim(weight.axes.index("vocab"), 0)
        new = old.new_zeros(self.rows, *old.shape[1:])
        sums, spares = self.sums, min(self.rows - self.sums.size, len(old) - self.spare)
        tokens, sources = torch.from_numpy(sums.tokens), torch.from_numpy(sums.sources)
        shares = torch.from_numpy(sums.weights).view(-1, *[1] * (old.dim() - 1))
        new.index_add_(0, tokens, old[sources] * shares)
        new[sums.size : sums.size + spares] = old[self.spare : self.spare + spares]
        missing = torch.ones(self.rows, dtype=torch.bool)
        missing[tokens] = False
        missing[sums.size : sums.size + spares] = False
        if drawn and missing.any():
            generator = torch.Generator().manual_seed(key(self.seed, "rows", weight.name))
            values = torch.randn(new.shape, generator=generator)
            deviation, mean = torch.std_mean(old[: self.spare], 0)
            new[missing] = (values * deviation + mean)[missing]
        return new.movedim(0, weight.axes.index("vocab")).contiguous()


def carrying(init: FromOther, old: Resolved, corpus: PreparedCorpus) -> Carrying:
    """The map from the tables of ``old`` to those of a run, by ``embeddings`` of its init."""
    vocabulary, vectors = corpus.vocabulary, None
    theirs = vocabulary_of(Path(init.path), old.encoder.vocab_size)
    match init.embeddings:
        case Focus(vectors=""):
            ids = (shard.opened().ids for text in corpus.texts for shard in text.train)
            vectors = vectors_of_text(ids, vocabulary, Silent())
        case Focus(vectors=name):
            vectors = vectors_of_words(name, vocabulary, Silent())
    sums = token_sums(theirs, vocabulary, init.embeddings, vectors)
    of_text = ~vocabulary.special[sums.tokens] & (sums.tokens != vocabulary.unk)
    if not of_text.any() and not isinstance(init.embeddings, Redrawn):
        raise DataError(
            f"the vocabularies of {init.path} and of this run have special tokens alone in common: "
            "there are no rows of the token table to carry over",
            "init=run(..., embeddings=random) draws all of them",
        )
    rows, seed = table_rows(corpus.resolved.vocabulary), corpus.resolved.run.seed
    return Carrying(sums, rows, theirs.size, seed, tuple(_notes(sums, theirs, corpus)))


def _notes(sums: TokenSums, theirs: Vocabulary, corpus: PreparedCorpus) -> Iterator[str]:
    """Lines about the origin of the rows, and the length of words before and after."""
    size = sums.size
    yield (
        f"rows of {sums.equal:,} of {size:,} tokens are carried over ({sums.equal / size:.1%}), "
        f"{sums.mixed:,} are means, {size - sums.equal - sums.mixed:,} drawn; "
        f"{theirs.size:,} tokens there"
    )
    if texts := [*first_pieces(corpus.resolved)]:
        pair = (tokens_a_word(v.tokenizer, texts) for v in (corpus.vocabulary, theirs))
        yield "{:.3f} tokens a word of the text, {:.3f} by its own vocabulary".format(*pair)
