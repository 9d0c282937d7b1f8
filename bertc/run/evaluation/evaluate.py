"""``bertc eval``: held-out evaluation of a finished, stopped or imported run.

Axes: b rows, v vocabulary.
"""

import math
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError, UsageError, several
from bertc.base.storage.paths import StrPath
from bertc.ir.program import Resolved, Stage, stand_in
from bertc.learn.objectives.corruption import corrupt, mask_key
from bertc.learn.step.feed import to_inputs, vocab_tensors
from bertc.learn.step.objective import make_objective
from bertc.machine.display import Display, choose
from bertc.model import Model
from bertc.run.beginning.teachers import frozen_networks
from bertc.run.evaluation.held_out import Evaluation, evaluate, fetch, heldout_sizes, unigram_nats
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.open_run import OpenRun, open_run
from bertc.run.evaluation.pairs import evaluate_pairs
from bertc.run.evaluation.task_lookup import is_imported, names_files, nothing_to_judge_by
from bertc.run.evaluation.tasks import Details, evaluate_files, evaluate_tasks, sources_told
from bertc.run.evaluation.word_networks import token_scores
from bertc.run.models.loading import read_model
from bertc.run.records.checkpoints import newest
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import ends_until
from bertc.run.train.report import NextTokenCost, Report, next_token_cost, plateau_lines
from bertc.run.train.state import Progress
from bertc.tasks.examples.task import TaskData
from bertc.text.batches.arranged import TextData
from bertc.text.batches.batch import RawBatch
from bertc.text.batches.running import RunningData
from bertc.text.batches.stage import StageData
from bertc.text.vocab.vocabulary import Vocabulary, characters_by_token

EVERYTHING = 1 << 40
"""More rows and tokens than any text has."""
Evaluated = tuple[Evaluation, tuple[str, ...], NextTokenCost | None]
"""An evaluation, lines that describe it, and what next tokens cost."""


def evaluate_run(
    run: StrPath,
    manner: Manner | None = None,
    *,
    task: str = "",
    part: str = "",
    cache: Path | None = None,
    quiet: bool = False,
) -> Report:
    """Evaluate the newest valid checkpoint, by default on the examples used during training.

    A model folder is evaluated as its import would be. ``manner`` changes what is read and how;
    ``task`` (see ``task_of``) names other files, ``part`` another part of the data, such as
    ``test``.

    Raises:
        MissingInputError: if the folder holds no run, or no model yet.
        DataError: if the run's files are damaged, or its text has changed.
        UsageError: if the text cannot be read as ``manner`` says, or as ``task_of``.
    """
    run, manner = Path(run), manner or Manner()
    if manner.last and manner.objective:
        raise UsageError("--last asks for an objective of its own", "leave out --objective")
    manner = replace(manner, objective=OBJECTIVE) if manner.last else manner
    if manner.pairs and not (task or part):
        return evaluate_pairs(run, manner, quiet)
    folder = RunFolder(run)
    resolved, done = _program_of(folder)
    trained = resolved.stage_after(done.step)
    files = bool(task or part or (manner.examples and trained.tasks))
    files |= any(map(is_imported, trained.tasks))
    devs = [getattr(t, "dev", "") or getattr(t, "data", "") for t in trained.tasks]
    named = names_files(task, ("dev",)) and not (part or manner.examples or any(devs))
    fits = (named or not files) and folder.holds_a_run
    reading, details = None, Details(run, fits=fits)
    with folder.naming_home(resolved), closing(choose(quiet)) as display:
        if files:
            manner.refuse_for_tasks()
            evaluation, notes = evaluate_files(
                run, task, part=part, most=manner.examples, progress=display, details=details
            )
        else:
            with open_run(folder, resolved, done.step, manner, cache, display) as opened:
                evaluation, notes, reading = _as_in_training(opened, manner, display, details)
    averaged = [s.evaluated] if (s := stand_in(trained, done.step)) else []
    notes = (*plateau_lines(evaluation, trained), *notes, *averaged)
    left_out, ends = ends_until(done.step, folder.follow())
    steps = done.step - left_out, resolved.steps_by(done.step, done.seconds)
    way = run, *steps, done.tokens, done.seconds, evaluation
    return Report(*way, (*notes, *ends), reading, tuple(details.notes))


def _program_of(folder: RunFolder) -> tuple[Resolved, Progress]:
    """The program of a run or model folder, and how far it was trained."""
    if folder.holds_a_model:
        return read_model(folder.path)[0], Progress()
    resolved = folder.read_resolved()
    checkpoint, _ = newest(folder.checkpoints, *folder.identities())
    return resolved, Progress.of(checkpoint.progress) if checkpoint else Progress()


def _as_in_training(run: OpenRun, manner: Manner, display: Display, details: Details) -> Evaluated:
    """Evaluate on the run's own held-out data, or on other text."""
    if isinstance(run.data, TaskData):
        if not any(task_set.parts for task_set in run.data.sets):
            raise nothing_to_judge_by(run.stage.tasks[0])
        evaluation = evaluate_tasks(
            run.model, run.stage, run.data, run.ranks.stop, progress=display, details=details
        )
        return evaluation, sources_told(run.data), None
    evaluation, seconds = _of_text(run, run.data, manner, display)
    reading = next_token_cost(evaluation, run.stage, seconds)
    return evaluation, (manner.describe(run.stage),), reading


def _of_text(run: OpenRun, data: TextData, how: Manner, view: Display) -> tuple[Evaluation, float]:
    """The evaluation, and the seconds that it took."""
    model, stage, vocabulary = run.model, run.stage, data.vocabulary
    device = next(model.parameters()).device
    nats_v = unigram_nats(vocabulary, data.tokens, device)
    known = characters_by_token(vocabulary)
    costs = [nats_v, *([] if known is None else [torch.from_numpy(known).to(nats_v)])]
    examples = how.examples or (EVERYTHING if how.data else run.examples)
    sizes = heldout_sizes(stage, run.microbatch, run.ranks)
    if how.last:
        assert isinstance(data, StageData), "its rows are documents, as Manner says"
        batches = fetch(replace(data, grain=1), range(1, sizes[-1] + 1), examples, view)
        return rank_last(model, stage, batches, vocabulary), 0.0
    objective = make_objective(model, stage, False, frozen_networks(stage, model))
    if isinstance(data, RunningData):
        data = replace(data, seq=stage.seq)
    began = time.perf_counter()
    batches, vocab = fetch(data, sizes, examples, view), vocab_tensors(vocabulary, device)
    evaluation = evaluate(model, stage, objective, batches, vocab, costs, run.microbatch, run.ranks)
    return evaluation, time.perf_counter() - began


OBJECTIVE = "mlm(last=100%, replace=100/0/0)"
"""The last token of every row is masked, and is predicted alone."""
LAST_TOKEN = "last token"
HITS = (1, 5, 10)
"""Ranks up to which the right token counts as found."""


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
