"""``init``: initial weights from another run or a model folder.

Token tables are carried to the tokens of another vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, listed
from bertc.check.facts.networks import no_masked_head
from bertc.hub.networks import add_tables
from bertc.hub.weights import checkpoint_notes
from bertc.ir.address import key
from bertc.ir.base import Weight
from bertc.ir.changing import growth
from bertc.ir.changing.growth import Focus, FromOther, Redrawn
from bertc.ir.learning import Answer, Embed, label_names
from bertc.ir.learning.optimizer import Optimizer, moments_of
from bertc.ir.program import MAIN, Resolved, model_weights
from bertc.ir.terms.node import MASKED_HEAD
from bertc.ir.vocabulary import table_rows
from bertc.ir.weight_maps import WeightMap, begins_as, changed_answers, fit, refusal
from bertc.lang import setting_shape, show_value
from bertc.model.weights import initial_values
from bertc.run.beginning.teachers import refuse_other_tokens
from bertc.run.models.loading import Weights, digest_of, read_checkpoint, read_model
from bertc.run.records import checkpoints
from bertc.tasks.corpus import PreparedCorpus
from bertc.text.cache.store import Silent
from bertc.text.vocab.token_rows import TokenSums, token_sums, vectors_of_text, vectors_of_words
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

    def carry(self, tensors: Tensors, table: Mapping[str, Weight], drawn: bool) -> Tensors:
        """All tensors, those with rows for tokens carried; others' rows are ``drawn``, or zero."""
        return {name: self._carry(t, table.get(name), drawn) for name, t in tensors.items()}

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
            deviation, mean = torch.std_mean(old[: self.spare], 0)
            new[missing] = (torch.randn(new.shape, generator=generator) * deviation + mean)[missing]
        return new.movedim(0, weight.axes.index("vocab")).contiguous()


def carrying(init: FromOther, old: Resolved, corpus: PreparedCorpus) -> Carrying:
    """The map from the tables of ``old`` to those of a run, by ``embeddings`` of its init."""
    vocabulary, vectors = corpus.vocabulary, None
    source = vocabulary_of(Path(init.path), old.encoder.vocab_size)
    match init.embeddings:
        case Focus(vectors=""):
            ids = (shard.opened().ids for text in corpus.texts for shard in text.train)
            vectors = vectors_of_text(ids, vocabulary, Silent())
        case Focus(vectors=name):
            vectors = vectors_of_words(name, vocabulary, Silent())
    sums = token_sums(source, vocabulary, init.embeddings, vectors)
    of_text = ~vocabulary.special[sums.tokens] & (sums.tokens != vocabulary.unk)
    if not of_text.any() and not isinstance(init.embeddings, Redrawn):
        message = f"{init.path} and this run have special tokens alone in common: no rows to carry"
        raise DataError(message, "init=run(..., embeddings=random) draws all of them")
    rows, seed = table_rows(corpus.resolved.vocabulary), corpus.resolved.run.seed
    return Carrying(sums, rows, source.size, seed, tuple(_notes(sums, source, corpus)))


def _notes(sums: TokenSums, source: Vocabulary, corpus: PreparedCorpus) -> Iterator[str]:
    """Lines about the origin of the rows, and the length of words before and after."""
    size = sums.size
    yield (
        f"rows of {sums.equal:,} of {size:,} tokens are carried over ({sums.equal / size:.1%}), "
        f"{sums.mixed:,} are means, {size - sums.equal - sums.mixed:,} drawn; "
        f"{source.size:,} tokens there"
    )
    if texts := [*first_pieces(corpus.resolved)]:
        words, both = sum(len(text.split()) for text in texts), (corpus.vocabulary, source)
        encoded = (v.tokenizer.encode_batch_fast(texts, add_special_tokens=False) for v in both)
        pair = (sum(len(e.ids) for e in of_one) / max(1, words) for of_one in encoded)
        yield "{:.3f} tokens a word of the text, {:.3f} by its own vocabulary".format(*pair)


TABLE = f"{MAIN}.embeddings.token.weight"

UNSHAPED = ("causal", "activation", "norm", "positions", "attention", "heads", "residual", "table")
"""Settings that change what a network computes, and no weight's shape."""


@dataclass(frozen=True)
class Source:
    """The weights of another model, the map to new names, and the sha256 of all of them."""

    folder: Path
    tensors: Tensors
    places: WeightMap
    sha256: str
    notes: tuple[str, ...]
    moments: Tensors = field(default_factory=dict)

    def lines(self) -> tuple[str, ...]:
        """Facts about the source, one per line."""
        count = sum(tensor.numel() for tensor in self.tensors.values())
        return tuple(f"init {self.folder}: {fact}" for fact in (f"{count:,} weights", *self.notes))


def source_of(resolved: Resolved, corpus: PreparedCorpus | None = None) -> Source | None:
    """Load the model that ``init`` names for the first stage; None for random initial values."""
    vocabulary = corpus.vocabulary if corpus else None
    match init := resolved.run.init:
        case growth.Drawn():
            return None
        case growth.FromVectors():
            if vocabulary is None:  # a trial without text knows no words
                return None
            return _from_vectors(init, resolved, vocabulary)
        case growth.FromOther(path=path) if path == growth.TEACHER:
            return None  # a teacher that is a shape alone has no weights
        case growth.FromOther(path=path):
            folder = Path(path)
        case unreachable:
            assert_never(unreachable)
    first, same = resolved.stages[0], init.same_tokens
    if vocabulary is None and not same:  # a trial without text knows no tokens
        return None
    old, tensors, moments = _read(init, folder, first.optimizer)
    target, sha256, rows = resolved.as_in(first), digest_of(tensors), tuple[str, ...]()
    if vocabulary is not None and same:
        refuse_other_tokens("init", folder, vocabulary, old.encoder.vocab_size)
    elif corpus is not None:
        rows_map, table = carrying(init, old, corpus), model_weights(old)
        moments = rows_map.carry(moments, moments_of(first.optimizer, table), drawn=False)
        tensors = rows_map.carry(tensors, {weight.name: weight for weight in table}, drawn=True)
        rows = rows_map.notes
        old = old.with_vocabulary(resolved.vocabulary)
    if not target.adds_tables:
        tensors = add_tables(old, tensors)
    places, mismatches = fit(old, tensors.keys(), target, begins_as(resolved))
    if mismatches:
        raise refusal(folder, mismatches, old, target)
    sparse = any(isinstance(task, Embed) and task.is_sparse for task in first.tasks)
    head = {w.name for w in model_weights(target) if w.name.startswith(f"heads.{MASKED_HEAD}.")}
    if sparse and not head <= places.copies.keys():
        raise no_masked_head(folder)
    notes = (
        *checkpoint_notes(folder), *rows, *_differences(old, target), *_new(places, old, target),
        *(_layers(init, places, old, target) if isinstance(init, growth.FromLayers) else []),
    )  # fmt: skip
    return Source(folder, tensors, places, sha256, notes, moments)


def require_readable(init: growth.Init, optimizer: Optimizer) -> None:
    """Refuse weights that cannot be read, before text is prepared, which may take long."""
    if isinstance(init, growth.FromOther) and init.path != growth.TEACHER:
        _read(init, Path(init.path), optimizer)


def _read(
    init: growth.FromOther, folder: Path, optimizer: Optimizer
) -> tuple[Resolved, Tensors, Tensors]:
    """Program, weights, and the moments if ``optimizer`` goes on with them."""
    if not isinstance(init, growth.FromRun) or (not init.step and init.moments == "reset"):
        return *read_model(folder), {}
    weights: Weights = "trained" if init.moments == "carry" else "evaluated"
    old, tensors, checkpoint = read_checkpoint(folder, init.step, weights)
    if init.moments == "reset":
        return old, tensors, {}
    sound = checkpoints.verify(checkpoint)
    rule, file = old.stage_after(sound.step).optimizer, sound.folder / checkpoints.OPTIMIZER
    if rule.keeps != optimizer.keeps:
        what = f"was trained by {rule.kind}, which keeps {rule.keeps}, not {optimizer.keeps}"
        raise DataError(f"{folder} {what}", f"moments=reset, or optimizer={rule.kind}")
    moments = moments_of(rule, model_weights(old))
    return old, tensors, checkpoints.load(file, {n: weight.shape for n, weight in moments.items()})


def _from_vectors(init: growth.FromVectors, resolved: Resolved, vocabulary: Vocabulary) -> Source:
    """The token table with the vectors of words that are tokens; the rest as it is drawn."""
    weight = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    vectors = vectors_of_words(init.path, vocabulary, Silent())
    if (width := vectors.shape[1]) != weight.shape[1]:
        raise DataError(
            f"{init.path} has {width} numbers for a word, and the token table {weight.shape[1]}",
            help=f"embedding={width}",
        )
    known = np.flatnonzero(vectors.any(1))
    table_ve = initial_values(weight, resolved.run.seed)
    table_ve[torch.from_numpy(known)] = torch.from_numpy(vectors[known])
    count, size = len(known), vocabulary.size
    note = f"vectors of {count:,} of {size:,} tokens ({count / size:.1%}), the others are random"
    tensors, places = {TABLE: table_ve}, WeightMap({TABLE: TABLE})
    return Source(Path(init.path), tensors, places, digest_of(tensors), (note,))


def _differences(old: Resolved, new: Resolved) -> Iterator[str]:
    """Warnings about settings that differ between the networks without changing shapes."""
    before, after = ({"causal": r.encoder.causal, **r.encoder.settings()} for r in (old, new))
    for name in (name for name in UNSHAPED if name in before and name in after):
        pair = before[name], after[name]
        old_text, new_text = (show_value(value, setting_shape(name), full=True) for value in pair)
        if old_text != new_text:
            yield f"warning: {name} is {old_text} there, but {new_text} here"


def _new(places: WeightMap, old: Resolved, new: Resolved) -> list[str]:
    """Lines about a pooler that a head begins, and heads with random initial values."""
    copied = {".".join(name.split(".")[:2]) for name in places.copies}
    parts = (weight.name.split(".") for weight in model_weights(new))
    heads = dict.fromkeys(name[1] for name in parts if name[0] == "heads")
    missing = [head for head in heads if f"heads.{head}" not in copied]
    reasons = {
        title: f"its {title} head predicts {_tells(old_answer)}, but this one {_tells(new_answer)}"
        for title, (old_answer, new_answer) in changed_answers(old, new).items()
    }
    pooled = [n for n, src in places.copies.items() if ".pooler." in n and src.startswith("heads.")]
    return [
        *(["the pooler starts as its masked-LM head up to the table"] if pooled else []),
        *(
            f"{reasons.get(head, f'it has no {head} head')}: it starts from random values"
            for head in missing
        ),
    ]


def _layers(init: growth.FromLayers, places: WeightMap, old: Resolved, new: Resolved) -> list[str]:
    """A line about which layers are taken, and one for each table of embeddings that is not."""
    depths = old.encoder.depth, new.encoder.depth
    layers = ", ".join(str(init.source(layer, *depths)) for layer in range(depths[1]))
    tables = {weight.name for weight in model_weights(old) if weight.part == "embeddings"}
    unused = sorted(tables - set(places.copies.values()))
    return [f"layers {layers}", *(f"its {name} is left out" for name in unused)]


def _tells(answer: Answer) -> str:
    return listed(label_names(answer)) or f"a {answer.kind}"
