"""Methods between the steps of a stage, in time order.

What is pruned is seen in the weights themselves: a checkpoint holds nothing else about it. Scores
by gradients say what the loss would gain or lose without each, to first order.

Axes: b batch, s sequence, u heads or neurons of a layer, d width of one.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from einops import rearrange
from torch import Tensor, nn

from bertc.base.diagnostics import DataError
from bertc.base.storage import durable
from bertc.hub.leaving.pruned import entries_of, find_removed, norms
from bertc.ir.methods.average import Ema
from bertc.ir.methods.ending import Clock, Patience
from bertc.ir.methods.method import Method
from bertc.ir.methods.pruning import Heads, Neurons, Units
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.sharing import OUTPUTS, SharedPart
from bertc.ir.program import Stage
from bertc.ir.weight_maps.pruned import ByLayer, choose_by_score, entries, units
from bertc.learn.step.engines import local_shard, local_shards
from bertc.model import Model, profile_as
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records.metrics import Ended, describe
from bertc.run.records.results import mean_score
from bertc.run.train.phase import Phase
from bertc.run.train.session import Session
from bertc.run.train.state import Best

M = TypeVar("M", bound=Method)


class Acting(Generic[M]):
    """A method at work in a stage, by default one that does nothing; all processes call it alike.

    What it has are tensors in ``session.held``, which checkpoints save and restore.
    """

    def __init__(self, method: M, session: Session, stage: Stage) -> None:
        self.method, self.session, self.stage = method, session, stage

    def begin(self, phase: Phase) -> None:
        """Look at what the stage has, before its first step here."""

    def share_used(self) -> float | None:
        """The share of the stage that is over, if steps do not say it; at 1 the stage ends."""
        return None

    def before_step(self, phase: Phase) -> None:
        """Act before a batch is taken; a run that goes on from here does it again."""

    def after_step(self) -> None:
        """Act on the weights after an update; the step of ``progress`` counts it."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Surround an evaluation."""
        return nullcontext()

    def after_evaluation(self, evaluation: Evaluation) -> None:
        """Act on what an evaluation has said."""


class Averaging(Acting[Ema]):
    """The exponential moving average of a stage."""

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the average towards the weights, by the share that they have."""
        average, engine = self.session.held[self.method.holds.file], self.session.engine
        means = local_shards(average.values())
        weights = local_shards(engine.parameters[name] for name in average)
        with profile_as("optimiser"):
            torch._foreach_lerp_(means, weights, self.method.share_at(self.session.progress.step))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Exchange weights and their average within this block, if one has begun."""
        if not self.method.has_begun(self.session.progress.step):
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        """Exchange all tensors in place, one at a time."""
        engine = self.session.engine
        for name, mean in self.session.held[self.method.holds.file].items():
            weight_shard, mean_shard = local_shards((engine.parameters[name], mean))
            weights = weight_shard.clone()
            weight_shard.copy_(mean_shard)
            mean_shard.copy_(weights)
        engine.forget_gathered()


class ByClock(Acting[Clock]):
    """The time of a run, by the seconds of its first process."""

    def share_used(self) -> float:
        """The share of the time that is used, equal in all processes."""
        progress = self.session.progress
        progress.seconds = self.session.ranks.share(progress.seconds)
        return progress.seconds / self.session.resolved.run.most_seconds


class Waiting(Acting[Patience]):
    """The best weights of a stage, whole in the first process's main memory."""

    def begin(self, phase: Phase) -> None:
        """Refuse a stage that is never scored."""
        if not phase.has_heldout:
            evaluations = self.method.evaluations
            raise DataError(
                f"stage {phase.stage.name} has patience = {evaluations}, but none of its tasks has "
                "a dev part to score",
                help="name a dev file, or leave patience out",
            )

    def after_evaluation(self, evaluation: Evaluation) -> None:
        """Keep the weights if they are the best, and end the stage after enough others."""
        session, progress, stage = self.session, self.session.progress, self.stage
        end = stage.first_step + stage.steps
        score = session.ranks.share(mean_score(stage, evaluation.scores))
        if progress.best is None or score > progress.best.score:
            progress.best = Best(progress.step, score, evaluation.fields())
            weights = session.weights().items()
            session.held[self.method.holds.file] = {name: w.clone() for name, w in weights}
        else:
            progress.best.waited += 1
        best, ended = progress.best, progress.step
        if ended < end and best.waited < self.method.evaluations:
            return
        # Steps that are skipped count as made: the next stage begins at its usual step.
        progress.best, progress.step, progress.evaluated = None, end, end
        if best.step != ended:
            self._restore()
            ended_at = Ended(step=best.step, ended=ended, end=end)
            session.write(stage, "eval", {**best.shown, "best": ended_at})
            session.display.note(describe(ended_at))
        session.held[self.method.holds.file] = {}

    @torch.no_grad()
    def _restore(self) -> None:
        """Restore the best weights and mark the state as unsaved."""
        session, engine = self.session, self.session.engine
        parameters, best = engine.parameters, session.held[self.method.holds.file]
        best = best or {name: torch.empty(weight.shape) for name, weight in parameters.items()}
        session.ranks.share_tensors(best)
        for name, parameter in parameters.items():
            local_shard(parameter).copy_(local_shard(engine.shard(best[name], name)))
        engine.forget_gathered()
        session.saved = -1


class Gates:
    """Gates of 1 that multiply the outputs of heads or neurons, and sums of their |dL/dgate|.

    Each row of a batch has gates of its own; layers that share a part share its gates.
    """

    def __init__(self, node: Encoder, part: SharedPart) -> None:
        self.counts = units(node, part)
        self._sums = {layer: torch.zeros(number) for layer, number in self.counts.items()}
        self._gates: dict[int, Tensor] = {}

    def apply(self, layer: int, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        """The input (b, s, u x d) of an output projection, multiplied by its gates."""
        x = rearrange(inputs[0], "b s (u d) -> b s u d", u=self.counts[layer])
        if layer not in self._gates:
            gate_bu = torch.ones(len(x), self.counts[layer], device=x.device)
            self._gates[layer] = gate_bu.requires_grad_()
        gate_b1u1 = self._gates[layer][:, None, :, None]
        return (rearrange((x * gate_b1u1).to(x.dtype), "b s u d -> b s (u d)"),)

    def collect(self, *_: Any) -> None:
        """Add the gradients of the rows since the last call to the sums."""
        for layer, gate_bu in self._gates.items():
            if gate_bu.grad is not None:
                self._sums[layer] += gate_bu.grad.abs().sum(0).cpu()
        self._gates = {}

    def sums(self) -> Tensor:
        """The sums of all layers in one vector, in fp64."""
        self.collect()
        return torch.cat([self._sums[layer] for layer in self.counts]).double()


@contextmanager
def put_gates(model: Model, part: SharedPart) -> Iterator[Gates]:
    """Put gates into the main network, in evaluation mode and without compiled functions."""
    body, node = model.encoder, model.encoder.node
    assert isinstance(node, Encoder), "the checks allow pruning of transformers alone"
    gates = Gates(node, part)
    # A new forward pass of the network begins: the gradients of the last one are complete.
    hooks = [body.register_forward_pre_hook(gates.collect)]
    for layer in gates.counts:
        projection = body.get_submodule(f"{part}.{layer}.{OUTPUTS[part]}")
        hooks.append(projection.register_forward_pre_hook(partial(gates.apply, layer)))
    model.eval()
    try:
        with torch.compiler.set_stance("force_eager"):
            yield gates
    finally:
        model.train()
        for hook in hooks:
            hook.remove()


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
        gone = find_removed(encoder, weights)[kind.part] if ranks.is_main else {}
        gone = _broadcast_found(session, gone)
        scores = {layer: [0.0] * number for layer, number in counts.items()}
        target = choose_by_score(kind, scores, gone, share)
        if _total(target) == _total(gone):
            return
        if kind.by == "gradient":
            scores = _gradients(session, phase, kind, counts)
        elif ranks.is_main:
            by_layer = norms(encoder, kind.part, weights)
            scores = {layer: norms_u.tolist() for layer, norms_u in by_layer.items()}
        removed = _broadcast_found(session, choose_by_score(kind, scores, gone, share))
        _zero(session, encoder, kind, removed)
        if ranks.is_main:
            durable.remove(session.folder.left)  # of an end before this one
        remaining = " ".join(str(number - len(removed[layer])) for layer, number in counts.items())
        session.display.note(
            f"step {session.progress.step:,}: {_total(removed):,} of {sum(counts.values()):,} "
            f"{kind.kind} are removed; left by layer: {remaining}"
        )


def _total(by_layer: ByLayer) -> int:
    return sum(map(len, by_layer.values()))


def _broadcast_found(session: Session, by_layer: ByLayer) -> dict[int, list[int]]:
    """Send what the first process found to all."""
    return dict(session.ranks.share([[layer, list(gone)] for layer, gone in by_layer.items()]))


def _gradients(
    session: Session, phase: Phase, kind: Units, counts: dict[int, int]
) -> dict[int, list[float]]:
    """Mean |dL/dgate| of all layers that own heads or neurons, over the first rows of the stage."""
    number = math.ceil(kind.examples / phase.stage.batch)
    with phase.feed(0, number) as feed:
        batches = [feed.take().micro_batches for _ in range(number)]
    with put_gates(phase.model, kind.part) as gates:
        for micro_batches in batches:
            phase.step.try_out(micro_batches)
        sums_u = gates.sums().to(session.device)
    session.ranks.add(sums_u)
    parts = torch.split(sums_u.cpu() / (number * phase.stage.batch), list(counts.values()))
    return {layer: part.tolist() for layer, part in zip(counts, parts, strict=True)}


@torch.no_grad()
def _zero(session: Session, encoder: Encoder, kind: Units, removed: ByLayer) -> None:
    """Set the weights of what is removed to zero, and their moments."""
    places = entries(encoder)
    moments = ((name.partition(".")[2], moment) for name, moment in session.moments.items())
    for name, tensor in (
        *session.engine.parameters.items(),
        *(pair for tensors in session.held.values() for pair in tensors.items()),
        *moments,  # they are called m.<weight>
    ):
        place = places.get(name)
        if place and place.part == kind.part and removed[place.layer]:
            gone = session.engine.shard(entries_of(tensor, place, removed[place.layer]), name)
            local_shard(tensor)[local_shard(gone)] = 0
