"""Span boundary objective: predict masked tokens from the two tokens around their span.

Axes: b examples, k predictions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from bertc.ir.terms.sbo import Sbo
from bertc.learn.objectives import term
from bertc.learn.objectives.targets import Boundaries, MicroBatch, Predictions
from bertc.learn.objectives.text.choice import find_text, runs
from bertc.model import EncoderInputs
from bertc.model.heads import Boundary


class SboTensors(term.TokenTensors[Sbo, Boundaries, Boundary]):
    """Prediction of span tokens from the states at the span's boundaries."""

    @property
    def divisor_extra(self) -> int:
        return int(self.node.extra_pair)

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, Boundaries]:
        """Boundaries of each masked token, in rows with masked spans."""
        assert rows.hidden is not None, "sbo needs masked spans"
        targets = find_boundaries(self.node, rows, rows.hidden)
        if not rows.stage.translates:
            return rows.reading, targets
        spans = {m.translations: m.unit.masks_spans for m in rows.stage.masked_terms()}
        asked_b = torch.where(rows.translated, float(spans[True]), float(spans.get(False, False)))
        return rows.reading, targets._replace(weights=targets.weights * asked_b[:, None])

    def positions(self, targets: Boundaries, batch: MicroBatch) -> tuple[Tensor, ...]:
        """Positions (b, k) before and after the span."""
        return targets.left, targets.right

    def score(self, targets: Boundaries, read: term.HeadInput[Boundary]) -> term.Predicted:
        """Two dense layers over both states and a position embedding, scored by the token table."""
        left_nh, right_nh = (states_bkh.flatten(0, 1) for states_bkh in read.states)
        features_ne = read.head(left_nh, right_nh, targets.place.reshape(-1))
        table_ve = term.table_of(read.network)
        return term.feature_losses(features_ne, read.head.bias, targets.targets, table_ve)

    def explain(self, targets: Boundaries, view: term.RowView) -> list[tuple[str, str]]:
        spans: dict[tuple[int, int], list[str]] = {}
        columns = (targets.left, targets.right, targets.weights, targets.targets)
        slots = zip(*(column[view.row].tolist() for column in columns), strict=True)
        for left, right, weight, target in slots:
            if weight:
                spans.setdefault((left, right), []).append(view.token(target))
        texts = (
            f"{view.token(view.original[left])} ({' '.join(words)}) "
            f"{view.token(view.original[right])}"
            for (left, right), words in spans.items()
        )
        return [("sbo", "; ".join(texts) or "no span has a token on both sides")]


def find_boundaries(objective: Sbo, rows: term.TextRows, masked: Predictions) -> Boundaries:
    """Boundaries (b, k), aligned with ``masked``.

    Spans are maximal runs of masked positions, so their neighbours are unmasked. Of each span the
    first ``max_targets`` tokens are predicted; a span next to a special token has no targets
    (SpanBERT, masking.py and no_nsp_span_bert_dataset.py).
    """
    used_bk = masked.weights > 0
    first_bk, last_bk = runs(masked.positions, used_bk)
    start_bk = masked.positions.gather(1, first_bk)
    end_bk = masked.positions.gather(1, last_bk)
    place_bk = masked.positions - start_bk
    # Position i is lane i + 1, so that both ends of a row have a neighbour.
    text = find_text(rows.inputs.token_ids, rows.real, rows.vocab)
    ordinary_bs = F.pad(text.ordinary, (1, 1))
    within_bk = ordinary_bs.gather(1, start_bk) & ordinary_bs.gather(1, end_bk + 2)
    asked_bk = used_bk & (place_bk < objective.max_targets) & within_bk
    where = (start_bk - 1, end_bk + 1, place_bk)
    left_bk, right_bk, place_bk = (torch.where(asked_bk, x_bk, 0) for x_bk in where)
    return Boundaries(left_bk, right_bk, place_bk, masked.targets, asked_bk.float())
