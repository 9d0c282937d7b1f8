"""Losses of next tokens, each predicted from a given number of tokens before it.

Axes: b windows, t positions of the text, w tokens of a window.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bertc.base.diagnostics import UsageError
from bertc.data.batches.running import RunningData
from bertc.data.cache.progress import Progress
from bertc.ir.program.stage import AnyStage
from bertc.ir.terms.node import TermNode
from bertc.learn.objectives.vocabulary import token_losses
from bertc.machine.display import choose
from bertc.model import EncoderInputs, Model
from bertc.run.evaluation.evaluate import progress_of
from bertc.run.evaluation.manner import Manner
from bertc.run.evaluation.open_run import open_run
from bertc.run.records.folder import RunFolder


class ContextLosses(NamedTuple):
    """Losses (t,) in nats of the same ``tokens`` (t,), by the number of tokens read before each.

    ``room`` is the most that the model can read, None without a limit.
    """

    by_context: Mapping[int, NDArray[np.float64]]
    tokens: tuple[str, ...]
    room: int | None


def context_losses(
    run: Path,
    contexts: Sequence[int],
    positions: int,
    data: str = "",
    *,
    cache: Path | None = None,
    quiet: bool = False,
) -> ContextLosses:
    """The losses of next tokens, spread evenly over held-out text, from contexts of given lengths.

    The text is ``data``, or what the run holds out. Beyond its room a model reads all that it can.

    Raises:
        UsageError: if the run predicts no next tokens, or the text is too short.
        MissingInputError, DataError: as ``evaluate_run``.
    """
    folder, longest = RunFolder(run), max(contexts)
    resolved, done = folder.read_resolved(), progress_of(folder)
    _refuse_tasks(run, resolved.trained_at(done.step))
    manner = Manner(sliding=min(contexts), data=data)
    with (
        closing(choose(quiet)) as display,
        open_run(folder, resolved, done.step, manner, cache, display) as at,
    ):
        assert isinstance(at.data, RunningData), "a window slides over a stream"
        texts, room = at.data.heldout_texts, at.stage.encoder.room
        ids = np.concatenate([text.ids for text in texts]).astype(np.int64)
        if len(ids) <= longest:
            raise UsageError(
                f"the text is too short: no token has {longest} tokens before it",
                help=f"--longest {max(2, len(ids) // 2)}",
            )
        places_t = np.unique(np.linspace(longest, len(ids) - 1, positions).astype(np.int64))
        tried = sorted({min(context, room or context) for context in contexts})
        term = next(t.objective for t in at.stage.objective if t.objective.order == "forward")
        display.begin(f"reading {run}", len(places_t) * sum(tried), "tokens")
        tokens = at.microbatch * at.stage.seq
        losses = {
            length: _losses(
                at.model, term, ids, places_t, length, max(1, tokens // length), display
            )
            for length in tried
        }
        display.end()
        predicted = tuple(map(at.data.vocabulary.readable, ids[places_t].tolist()))
        return ContextLosses({c: losses[min(c, room or c)] for c in contexts}, predicted, room)


@torch.no_grad()
def _losses(
    model: Model,
    term: TermNode,
    text: NDArray[np.int64],
    places_t: NDArray[np.int64],
    context: int,
    rows: int,
    progress: Progress,
) -> NDArray[np.float64]:
    """The loss of the token at each place, from the ``context`` tokens before it alone."""
    device, head = next(model.parameters()).device, model.heads[term.head_name]
    losses = []
    for first in range(0, len(places_t), rows):
        places_b = places_t[first : first + rows]
        read_bw = text[places_b[:, None] + np.arange(-context, 1)]
        part_bw = torch.from_numpy(read_bw).to(device)
        ids_bw, next_b1 = part_bw[:, :-1], part_bw[:, -1:]
        last_b1 = torch.full_like(next_b1, context - 1)
        states_b1h = model.read(EncoderInputs(ids_bw, output_positions=last_b1))
        losses_b = token_losses(states_b1h, next_b1, head, model.encoder).losses
        losses.append(losses_b.double().cpu().numpy())
        progress.advance(len(places_b) * context)
    return np.concatenate(losses)


def _refuse_tasks(run: Path, stage: AnyStage) -> None:
    if stage.tasks:
        raise UsageError(
            f"{run} has learned a task: contexts are of next tokens",
            help="a run of objective=clm or of plm",
        )
