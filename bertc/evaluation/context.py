"""Relative effective context length: how much context a model of a group makes use of.

Dai et al. 2019, 4.3 and appendix C. Axes: b windows, t positions of the text, w tokens of a window.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bertc.data import Progress
from bertc.ir.terms.node import TermNode
from bertc.nn import EncoderInputs, Model
from bertc.objectives.vocabulary import token_losses

ByContext = Mapping[int, NDArray[np.float64]]
"""Losses (t,) of the same positions in nats, by the number of tokens read before each."""


class ContextLength(NamedTuple):
    """The context length of a model at one share of hard positions, and the gains on the way.

    ``gains`` are of every context over the one before. ``least``: the longest one that was tried
    still gained, so that the length is at least this.
    """

    tokens: int
    least: bool
    gains: dict[int, float]


@torch.no_grad()
def losses_at(
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


def relative_length(
    group: Sequence[ByContext], of_model: ByContext, hard: float, threshold: float, room: int
) -> ContextLength:
    """The relative effective context length of one (``of_model``) of a group of models.

    A longer context counts where it beats the best of the group at the shorter one, on the share
    ``hard`` of the positions at which that best is worst; the length is the first whose next gains
    less than ``threshold`` of the perplexity. It is no more than a model's ``room``.
    """
    contexts = sorted(of_model)
    gains: dict[int, float] = {}
    for shorter, longer in zip(contexts, contexts[1:], strict=False):
        best_t = np.min([each[shorter] for each in group], axis=0)
        kept = np.argsort(-best_t, kind="stable")[: max(1, round(hard * len(best_t)))]
        before = best_t[kept].mean()
        after = np.minimum(best_t, of_model[longer])[kept].mean()
        gains[longer] = float(1 - np.exp(after - before))
        if gains[longer] < threshold:
            return ContextLength(min(shorter, room), least=False, gains=gains)
    return ContextLength(min(contexts[-1], room), least=contexts[-1] < room, gains=gains)
