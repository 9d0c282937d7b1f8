"""``bertc eval --pairs``: how often a network finds the right sentence of a pair the likelier one.

A masked network scores a sentence by its pseudo-log-likelihood, each token masked alone
(Salazar et al. 2020); a causal one by the likelihood of each token after those before it.

Axes: b rows, s tokens of the longest row, n predictions, v vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from bertc.base.diagnostics import DataError, UsageError, as_data_error, listed, several
from bertc.base.storage.paths import is_taken, user_path
from bertc.hub.folders import RESOLVED
from bertc.ir.learning import PRETRAINING, Objective
from bertc.ir.terms.node import LanguageModel
from bertc.learn.objectives import tensors_of
from bertc.machine.display import choose
from bertc.model import EncoderInputs, Model
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.word_networks import learned_terms, token_scores
from bertc.run.models.loading import load, newest_step, place_on_device
from bertc.run.models.vectors import TextRow, in_batches
from bertc.run.records.folder import RunFolder
from bertc.run.train.report import Report
from bertc.tasks.layouts.minimal_pairs import MinimalPair, read_pairs
from bertc.tasks.metrics.metrics import wilson
from bertc.text.cache.store import Progress
from bertc.text.vocab.vocabulary import FAILS, Vocabulary, vocabulary_of

MEAN = "mean"
"""The part of the total: the mean over phenomena, not over pairs."""
HOW = {
    "masks": "the sum of log p of each token, masked alone",
    "end": "the sum of log p of each token after those before it",
}
"""A score in words, by what a term fills."""


@dataclass(frozen=True, order=True)
class Sentence(TextRow):
    """A sentence, and the places of the tokens that are scored."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class ScoredRow(TextRow):
    """The tokens that the network sees of a sentence, and the places that it predicts."""

    sentence: Sentence
    places: tuple[int, ...]


def evaluate_pairs(run: Path, manner: Manner, quiet: bool = False) -> Report:
    """Score the pairs that ``manner`` names with the newest weights of a run or a model folder.

    Networks compute in fp32. A tie counts as right, as in babylm/evaluation-pipeline-2025, which
    takes the first of the highest scores. It adds up in fp32, so that scores of like sentences may
    tie there alone: 3 of 17,000 pairs of BLiMP, with a small causal network.
    """
    folder, objective, examples = manner.pairs, manner.objective, manner.examples
    if manner != Manner(pairs=folder, objective=objective, examples=examples):
        message = "pairs are scored one by one, and whole"
        raise UsageError(message, "leave out all options but --objective, --examples and --json")
    pairs = read_pairs(folder)[: examples or None]
    model = load(run)
    vocabulary = vocabulary_of(run, model.resolved.encoder.vocab_size)
    term = _scoring(model, objective)
    place_on_device(model, model.resolved.run.device, "fp32")
    room = model.resolved.encoder.room or math.inf
    ahead = isinstance(term, LanguageModel) and term.ahead
    candidates = [_encode(vocabulary, pair, ahead, room) for pair in pairs]
    with closing(choose(quiet)) as display:
        scores = _scores(model, term, vocabulary.mask, [*chain(*candidates)], display)
    points = [[scores[sentence] for sentence in of_pair] for of_pair in candidates]
    predicted = sum(len(first.places) for first, *_ in candidates)
    loss = -math.fsum(first for first, *_ in points) / predicted
    evaluation = _evaluation(user_path(folder).name.partition(".jsonl")[0], pairs, points, loss)
    step = newest_step(run) if is_taken(run / RESOLVED) else 0
    learned = [learned_term.name for learned_term in model.resolved.terms()]
    notes = [f"scored by {term.title}: {HOW[term.fills]}"]
    if ties := sum(of_pair[0] == max(of_pair[1:]) for of_pair in points):
        notes.append(f"{several(ties, 'tie')} counted as right, as in the BabyLM pipeline")
    if equal := [pair.place for pair in pairs if len({*pair.sentences}) < len(pair.sentences)]:
        notes.append(f"{several(len(equal), 'pair')} of equal sentences, the first at {equal[0]}")
    if step and term.title not in learned:  # a folder of transformers does not say
        notes.append(f"the run learned {listed(learned)}, not {term.title}")
    steps = RunFolder(run).fix_steps(model.resolved).steps
    return Report(run, step, steps, 0, 0, evaluation, (*notes,))


def _scoring(model: Model, objective: str) -> Objective:
    """The learned term that scores sentences, the first one or that of ``objective``.

    A head may be asked otherwise than it learned, as that of mntp in a folder where it is mlm's,
    or causally, if it learned that in rows of its own.
    """
    terms = [term for term in learned_terms(model) if term.fills in HOW]
    learned = (term.objective for term in model.resolved.terms() if term.name == objective)
    asked = next(learned, PRETRAINING[objective]() if objective in PRETRAINING else None)
    if asked and asked.fills in HOW and asked.head_name in {term.head_name for term in terms}:
        return asked
    if objective or not terms:
        raise DataError(
            f"the network has learned no {objective or 'objective that predicts tokens'}"
            + f", only {listed(term.title for term in terms)}" * bool(terms),
            help=f"--objective {terms[0].title}" if terms else "a run of mlm, clm or plm",
        )
    return terms[0]


def _encode(vocabulary: Vocabulary, pair: MinimalPair, ahead: bool, room: float) -> list[Sentence]:
    """The sentences of a pair; ``ahead``: no token is predicted that is first in its row."""
    sentences = []
    for text, begin in zip(pair.sentences, pair.begins, strict=True):
        with as_data_error(*FAILS):
            read = vocabulary.tokenizer.encode(text)
        places = [i for i, (_, end) in enumerate(read.offsets) if end > begin and (i or not ahead)]
        if not places or len(read.ids) > room:
            long = f"the network reads {room} tokens, the sentence has {len(read.ids)}"
            raise DataError(
                f"{pair.place}: {long if places else f'no token to score in {text[begin:]!r}'}",
                "leave the pair out",
            )
        sentences.append(Sentence((*read.ids,), (*read.type_ids,), (*places,)))
    return sentences


def _scores(
    model: Model, term: Objective, mask: int, sentences: Sequence[Sentence], progress: Progress
) -> dict[Sentence, float]:
    """The log-likelihood of the scored tokens of every sentence, in nats."""
    distinct = sorted({*sentences}, key=lambda sentence: (len(sentence.token_ids), sentence))
    rows = [row for sentence in distinct for row in _rows(term, sentence, mask)]
    scores = dict.fromkeys(distinct, 0.0)
    progress.begin("scoring sentences", len(rows), "rows")
    for part, inputs in in_batches(model, rows):
        for row, nats in zip(part, _read(model, term, part, inputs, mask), strict=True):
            scores[row.sentence] -= nats
        progress.advance(len(part))
    progress.end()
    return scores


def _rows(term: Objective, sentence: Sentence, mask: int) -> Iterator[ScoredRow]:
    """The one row of a causal network, or for each scored token one in which it is masked."""
    ids, segments = sentence.token_ids, sentence.segment_ids
    if term.fills == "end":
        yield ScoredRow(ids, segments, sentence, sentence.places)
        return
    for place in sentence.places:
        yield ScoredRow((*ids[:place], mask, *ids[place + 1 :]), segments, sentence, (place,))


@torch.inference_mode()
def _read(
    model: Model, term: Objective, rows: Sequence[ScoredRow], inputs: EncoderInputs, mask: int
) -> list[float]:
    """The summed nats of the scored tokens of each row."""
    device = inputs.token_ids.device
    inputs = inputs._replace(causal=term.order == "forward" or None)
    counts_b = torch.tensor([len(row.places) for row in rows], device=device)
    of_row_n = torch.arange(len(rows), device=device).repeat_interleave(counts_b)
    at_n = torch.tensor([p for row in rows for p in row.places], device=device)
    targets_n = torch.tensor([row.sentence.token_ids[p] for row in rows for p in row.places])
    if term.fills == "end":
        at_n = at_n - 1
    else:  # a row for each prediction
        inputs, at_n = tensors_of(term).ask(inputs, at_n, mask)
    scores_nv = token_scores(model, term, inputs, at_n, of_row_n)
    nats_n = torch.nn.functional.cross_entropy(scores_nv, targets_n.to(device), reduction="none")
    sums_b = torch.zeros(len(rows), dtype=torch.float64, device=device)
    return sums_b.index_add(0, of_row_n, nats_n.double()).tolist()


def _evaluation(
    name: str, pairs: Sequence[MinimalPair], points: Sequence[Sequence[float]], loss: float
) -> Evaluation:
    """Accuracies by group, and their mean, with 95% intervals; loss: nats a token, right ones."""
    hits: dict[str, dict[str, list[bool]]] = {}
    families: dict[str, set[str]] = defaultdict(set)
    for pair, of_pair in zip(pairs, points, strict=True):
        families[pair.family].add(pair.phenomenon)
        for number, (kind, group) in enumerate(pair.groups.items()):
            by_group = hits.setdefault(name if number == 0 else f"{name} by {kind}", {})
            by_group.setdefault(group, []).append(of_pair[0] >= max(of_pair[1:]))
    scores: dict[str, dict[str, dict[str, float]]] = {}
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    for title, by_group in hits.items():
        scores[title] = {g: {"accuracy": sum(right) / len(right)} for g, right in by_group.items()}
        intervals[title] = {g: wilson(sum(right), len(right)) for g, right in by_group.items()}
    mean, variance = 0.0, 0.0
    for phenomena in families.values():
        for phenomenon in phenomena:
            weight, right = 1 / (len(families) * len(phenomena)), hits[name][phenomenon]
            share = sum(right) / len(right)
            mean += weight * share
            variance += weight**2 * share * (1 - share) / len(right)
    half = 1.96 * math.sqrt(variance)
    scores[name][MEAN] = {"accuracy": mean}
    intervals[name][MEAN] = max(0.0, mean - half), min(1.0, mean + half)
    losses = dict.fromkeys(scores, loss)
    return Evaluation(loss, losses, {name: mean}, len(pairs), scores=scores, intervals=intervals)
