"""Held-out text read otherwise than in training: longer memory, sliding window.

Axes: b windows, w tokens per window, t tokens that a window predicts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from bertc.base.diagnostics import UsageError
from bertc.data.batches.arranged import TextData
from bertc.data.batches.running import RunningData
from bertc.data.cache.progress import Progress
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Losses, MicroBatch, NextTokenTargets
from bertc.model import EncoderInputs, Model
from bertc.model.body import Outputs
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.manner import Manner


def read_data(data: TextData, stage: Stage) -> TextData:
    """The data of a stage, cut into rows of its length."""
    return replace(data, seq=stage.seq) if isinstance(data, RunningData) else data


@torch.no_grad()
def slide(
    model: Model,
    stage: Stage,
    data: RunningData,
    costs: Sequence[Tensor],
    manner: Manner,
    tokens: int,
    rows: int,
    progress: Progress,
) -> Evaluation:
    """Predict the first ``tokens`` that have a full window before them, each from its window.

    ``costs`` (v,) of each token are its nats by frequency, and its characters if they are known.

    Raises:
        UsageError: if the text is shorter than a window.
    """
    window, stride = manner.sliding, manner.stride
    name = next(term.name for term in stage.objective if term.objective.order == "forward")
    text = np.concatenate([t.ids[: window + tokens] for t in data.heldout_texts])[: window + tokens]
    if len(text) <= window:
        raise UsageError(f"the held-out text is too short: no token has {window} tokens before it")
    sums = torch.zeros(4 + len(costs) - 1, dtype=torch.float64)
    losses, device = Losses(model, stage, stage.networks()[-1]), next(model.parameters()).device
    progress.begin("evaluating", len(text) - window, "tokens")
    model.eval()
    try:
        for micro_batch in _windows(name, text, window, stride, rows, device):
            hidden_bth = model.read(micro_batch.reading)
            loss = losses(micro_batch, Outputs(hidden_bth))[name]
            targets = micro_batch.terms[name]
            assert isinstance(targets, NextTokenTargets), "as _windows makes them"
            guessed = [(cost_v[targets.targets] * targets.weights).sum() for cost_v in costs]
            sums += torch.stack([loss.sum, loss.correct, loss.count, *guessed]).cpu().double()
            progress.advance(int(loss.count))
        progress.end()
    finally:
        model.train()
    total, hits, count, guess, *characters = sums.tolist()
    return Evaluation(
        loss=total / count,
        losses={name: total / count},
        accuracy={name: hits / count},
        examples=int(count),
        unigram_loss=guess / count,
        unigram_losses={name: guess / count},
        predictions=int(count),
        characters=round(sum(characters)),
    )


def _windows(
    name: str, text: NDArray[Any], window: int, stride: int, rows: int, device: torch.device
) -> Iterator[MicroBatch]:
    """Micro-batches of windows that move on by ``stride``; the last one predicts what is left."""
    padded = np.pad(text, (0, stride - 1))
    view = sliding_window_view(padded, window + 1)[stride - 1 :: stride]
    predicted = len(text) - window
    asked_t = torch.arange(window - stride, window, device=device)
    for first in range(0, len(view), rows):
        part_bw = torch.from_numpy(view[first : first + rows].astype(np.int64)).to(device)
        ids_bw, next_bt = part_bw[:, :-1], part_bw[:, -stride:]
        nth_bt = torch.arange(next_bt.numel(), device=device).view_as(next_bt) + first * stride
        yield MicroBatch(
            reading=EncoderInputs(ids_bw, output_positions=asked_t.expand_as(next_bt)),
            originals=ids_bw,
            terms={name: NextTokenTargets(next_bt, (nth_bt < predicted).float())},
        )
