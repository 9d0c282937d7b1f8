"""``bertc eval --last``: how high the last token of a row ranks among all, as items of sessions.

Axes: b rows, v vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, UsageError, several
from bertc.ir.program import Stage
from bertc.learn.objectives.corruption import corrupt, mask_key
from bertc.learn.step.feed import to_inputs, vocab_tensors
from bertc.model import Model
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.word_networks import token_scores
from bertc.text.batches.batch import RawBatch
from bertc.text.vocab.vocabulary import Vocabulary

OBJECTIVE = "mlm(last=100%, replace=100/0/0)"
"""The last token of every row is masked, and is predicted alone."""
LAST_TOKEN = "last token"
HITS = (1, 5, 10)
"""Ranks up to which the right token counts as found."""


def ask(manner: Manner) -> Manner:
    """The same with the objective of ``last``."""
    if manner.last and manner.objective:
        raise UsageError("--last asks for an objective of its own", "leave out --objective")
    return replace(manner, objective=OBJECTIVE) if manner.last else manner


@torch.inference_mode()
def rank_last(
    model: Model, stage: Stage, batches: Iterable[RawBatch], vocabulary: Vocabulary
) -> Evaluation:
    """Rank the last token of each row by its score among all tokens that are not special.

    A token that scores the same counts as better. nDCG@10 is 1 / log2(1 + rank) up to rank 10, MRR
    the mean of 1 / rank; figures among sampled tokens (BERT4Rec 4.2) are higher, and compare with
    none of these.

    Raises:
        DataError: if no row has two tokens, one to predict and one to predict it from.
    """
    device, (term,) = next(model.parameters()).device, stage.objective
    vocab, key = vocab_tensors(vocabulary, device), mask_key(model.resolved.run.seed)
    ranks, nats = list[Tensor](), list[Tensor]()
    model.eval().compute_dtype = torch.float32  # bf16 has too few scores to rank by
    for batch in batches:
        inputs = to_inputs(batch, device)
        masked = corrupt(stage, inputs, vocab, key)
        predictions = masked.terms[term.name]
        reading = masked.reading._replace(output_positions=None, decoded_positions=None)
        long_b = (~vocab.special[inputs.token_ids]).sum(1) > 1
        used_b = (predictions.weights[:, 0] > 0) & long_b
        at_b = predictions.positions[:, 0]
        scores_bv = token_scores(model, term.objective, reading, at_b)
        scores_bv[:, : len(vocab.special)].masked_fill_(vocab.special, -math.inf)
        scores_bv[:, len(vocab.special) :] = -math.inf  # rows of the table without a token
        right_b1 = predictions.targets[:, :1]
        score_b1 = scores_bv.gather(1, right_b1)
        ranks.append((scores_bv >= score_b1).sum(1)[used_b])
        nats.append((scores_bv.logsumexp(1) - score_b1[:, 0])[used_b])
    rank_n, nats_n = torch.cat(ranks).double(), torch.cat(nats).double()
    if not len(rank_n):
        raise DataError("no row has two tokens", "rows of at least two tokens, as of sessions")
    gains_n = torch.where(rank_n <= HITS[-1], 1 / (1 + rank_n).log2(), 0.0)
    figures = {f"hit@{most}": (rank_n <= most).double() for most in HITS}
    figures |= {f"ndcg@{HITS[-1]}": gains_n, "mrr": 1 / rank_n}
    scores = {name: figure_n.mean().item() for name, figure_n in figures.items()}
    among, loss = f"among {several(int((~vocab.special).sum()), 'token')}", nats_n.mean().item()
    by_task, first = {LAST_TOKEN: {among: scores}}, {LAST_TOKEN: scores["hit@1"]}
    return Evaluation(loss, {LAST_TOKEN: loss}, first, len(rank_n), scores=by_task)
