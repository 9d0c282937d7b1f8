"""Pruning within a stage: which heads or neurons go, and zeros in their place.

What is gone is seen in the weights themselves, so a checkpoint holds nothing else about it.
"""

import math

import torch

from bertc.base.storage import durable
from bertc.hub.leaving.pruned import entries_of, norms, removed_units
from bertc.ir.address import key
from bertc.ir.methods.pruning import Heads, Neurons, Units, units
from bertc.ir.network.encoder import Encoder
from bertc.ir.weight_maps.pruned import ByLayer, chosen_by_score, entries
from bertc.learn.step.engines import local_shard
from bertc.learn.step.gates import gate_gradients
from bertc.run.methods.acting import Acting
from bertc.run.train.phase import Phase
from bertc.run.train.session import Session


class Removing(Acting[Heads | Neurons]):
    """The removal of heads or neurons, at once or in rounds."""

    def before_step(self, phase: Phase) -> None:
        """Remove what is to go before the next step."""
        session, stage, kind, encoder = self.session, self.stage, self.method, self.stage.encoder
        share = kind.share_gone(session.progress.step - stage.first_step, stage.steps)
        if share is None:
            return
        assert isinstance(encoder, Encoder), "the checks allow pruning of transformers alone"
        counts = units(encoder, kind.part)
        ranks, weights = session.ranks, session.weights()
        gone = removed_units(encoder, weights)[kind.part] if ranks.is_main else {}
        gone = _broadcast_found(session, gone)
        scores = {layer: [0.0] * number for layer, number in counts.items()}
        target = chosen_by_score(kind, scores, gone, share)
        if _total(target) == _total(gone):
            return
        if kind.by == "gradient":
            scores = _gradients(session, phase, kind, counts)
        elif ranks.is_main and kind.by == "magnitude":
            by_layer = norms(encoder, kind.part, weights)
            scores = {layer: norms_u.tolist() for layer, norms_u in by_layer.items()}
        elif ranks.is_main:
            seed = session.resolved.run.seed
            scores = {
                layer: [float(key(seed, "prune", kind.part, layer, unit)) for unit in range(number)]
                for layer, number in counts.items()
            }
        removed = _broadcast_found(session, chosen_by_score(kind, scores, gone, share))
        _zero(session, encoder, kind, removed)
        if ranks.is_main:
            durable.remove(session.folder.pruned)  # of an end before this one
        remaining = " ".join(str(number - len(removed[layer])) for layer, number in counts.items())
        session.display.note(
            f"step {session.progress.step:,}: {_total(removed):,} of {sum(counts.values()):,} "
            f"{kind.kind} are removed; left by layer: {remaining}"
        )


def _total(by_layer: ByLayer) -> int:
    return sum(map(len, by_layer.values()))


def _broadcast_found(session: Session, by_layer: ByLayer) -> dict[int, list[int]]:
    """Send what the first process found to all."""
    pairs = session.ranks.share([[layer, list(gone)] for layer, gone in by_layer.items()])
    return {layer: gone for layer, gone in pairs}


def _gradients(
    session: Session, phase: Phase, kind: Units, counts: dict[int, int]
) -> dict[int, list[float]]:
    """Mean |dL/dgate| over the first rows of the stage."""
    number = math.ceil(kind.examples / phase.stage.batch)
    with phase.feed(session, 0, number) as feed:
        batches = [feed.take().micro_batches for _ in range(number)]
    sums_u = gate_gradients(phase.model, phase.step, kind.part, batches).to(session.device)
    session.ranks.add(sums_u)
    parts = torch.split(sums_u.cpu() / (number * phase.stage.batch), list(counts.values()))
    return {layer: part.tolist() for layer, part in zip(counts, parts, strict=True)}


@torch.no_grad()
def _zero(session: Session, encoder: Encoder, kind: Units, removed: ByLayer) -> None:
    """Set the weights of what is removed to zero, and their moments."""
    places = entries(encoder)
    moments = ((name[2:], moment) for name, moment in session.moments.items())
    for name, tensor in (
        *session.engine.parameters.items(),
        *(pair for tensors in session.held.values() for pair in tensors.items()),
        *moments,  # they are called m.<weight>, v.<weight>
    ):
        place = places.get(name)
        if place and place.part == kind.part and removed[place.layer]:
            gone = session.engine.shard(entries_of(tensor, place, removed[place.layer]), name)
            local_shard(tensor)[local_shard(gone)] = 0
