"""Memory of a training step: where it peaks, and the micro-batch that fits on a device.

Backward frees a layer's saved activations while it adds that layer's gradients, so the peak is
wherever their sum is largest: at the vocabulary scores, within a layer, at the gradient of the
token table, or at the update. Saved activations are autograd's without a compiler (rules.py).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

from bertc.cost.blocks import MemoryPoint, NetworkPass, block_bytes
from bertc.cost.figures import FP32, DeviceBudget, Memory, Parameters, passes_of
from bertc.cost.parameters import methods_bytes, state_bytes, temporary_bytes
from bertc.cost.planning.plan import Fit, batches_at_once, choose_fit, largest_divisor
from bertc.ir.base import DeviceKind
from bertc.ir.operation import VocabularyLoss
from bertc.ir.program import Stage, TaskStage, adaptive_unit, split_rows

CUBLAS_BYTES = 2**25
"""cuBLAS workspace (CUBLAS_WORKSPACE_CONFIG=:4096:8), taken from torch's allocator."""
CHUNK = {"cpu": 0, "cuda": 2**24}
"""Number of scores that the eager cross entropy casts to fp32 at once.

On a CPU it is a row or, without a compiler, 2 MB."""
LONG = 8
"""Bytes of an id or position."""
BY_TOKEN, BY_PREDICTION = 3, 4
"""Numbers of a token: id, segment, masked id; of a predicted one: place, original, weight, row."""


@dataclass(frozen=True)
class Step:
    """A step as far as memory depends on it; ``parameters`` counts the whole run."""

    stage: Stage
    parameters: Parameters
    budget: DeviceBudget
    accumulating: bool
    recompute: bool

    @cached_property
    def passes(self) -> tuple[NetworkPass, ...]:
        """One entry per network, in the order of their forward passes."""
        stage, budget, how = self.stage, self.budget, self.budget.execution
        return tuple(
            NetworkPass(stage, network, budget, forward, block_bytes(forward, how), self.recompute)
            for network, forward in passes_of(stage, stage.rows_an_example)
        )

    @cached_property
    def kept(self) -> int:
        """Bytes that forward saves for backward, per example, over all networks."""
        return sum(net.kept for net in self.passes)

    @cached_property
    def points(self) -> tuple[MemoryPoint, ...]:
        """All memory points in time order; backward visits the networks last to first."""
        points = []
        for place, net in enumerate(self.passes):
            earlier, later = self.passes[:place], self.passes[place + 1 :]
            # Earlier networks still hold all saved activations; later ones already have gradients.
            fixed = self._start + sum(network.copies for network in earlier)
            if not self.accumulating:
                fixed += sum(network.gradients for network in later)
            # The gradient of a shared token table lives until both networks have added to it.
            fixed += sum(network.slope * FP32 for network in later[:1] if net.network.learned)
            saved = sum(network.kept for network in earlier if network.network.learned)
            handed_on = sum((network.handed_on for network in (*earlier, net)), MemoryPoint(0, 0))
            points += [MemoryPoint(fixed, saved) + point for point in self._own(net, handed_on)]
        return (*points, *self._end())

    def _own(self, net: NetworkPass, handed_on: MemoryPoint) -> Iterator[MemoryPoint]:
        """Points of one network; ``handed_on`` is left until all losses are."""
        # Without backward a block is gone when the next one begins.
        largest = max(net.at_once, key=lambda point: point.per_example, default=MemoryPoint(0, 0))
        yield handed_on + largest
        if not net.network.learned:
            return
        yield from (handed_on + point for point in self._losses(net))
        yield from self._scores(net)
        if net.network.terms:
            yield from self._layers(net)

    @cached_property
    def _start(self) -> int:
        """Bytes of weights, moments, batch, and the gradients of earlier micro-batches."""
        gradients = FP32 if self.accumulating else 0
        states = self.parameters.total * FP32 + self.parameters.trained * gradients
        states += state_bytes(self.stage, self.parameters.total)
        states += self.parameters.frozen * FP32
        workspace = CUBLAS_BYTES if self.budget.execution.device == "cuda" else 0
        # The memory of earlier segments (Transformer-XL), and the one that is being written.
        encoder, earlier = self.stage.encoder, self.stage.batch * self.stage.memory
        memory = 2 * encoder.depth * earlier * encoder.hidden * self.budget.execution.value_bytes
        return states + workspace + _batch_bytes(self.stage, self.budget.execution.device) + memory

    def _losses(self, net: NetworkPass) -> Iterator[MemoryPoint]:
        """Points in forward: at each loss in blocks, and when all losses are known."""
        tables = 0
        for loss in net.in_blocks:
            tables += loss.table
            yield MemoryPoint(net.cast + tables + loss.block, loss.kept)
        yield MemoryPoint(net.cast + tables, net.kept)

    def _scores(self, net: NetworkPass) -> Iterator[MemoryPoint]:
        """Points at the vocabulary scores, and where the token table's gradient is cast to fp32."""
        how, stage = self.budget.execution, self.stage
        fixed = net.cast + sum(loss.table for loss in net.in_blocks)
        for loss in net.in_blocks:  # each gradient beside the same times the one from above
            yield MemoryPoint(fixed + loss.table, loss.kept + loss.saved)
        if not net.network.vocabulary_heads and net.network.terms:
            yield MemoryPoint(fixed, net.kept)
            return
        slope = net.slope * how.value_bytes
        scores = net.network.body.token_head.scores(stage.predictions())  # per example
        if how.compiled:
            # Compiled code keeps the scores' gradient next to them, in fp32 and rounded from it; in
            # fp32 a GPU writes it over the scores.
            over = how.device != "cpu" and how.precision == "fp32"
            gradient_bytes = 0 if over else how.value_bytes + FP32
            yield MemoryPoint(fixed + slope, net.kept + scores * gradient_bytes)
        else:
            # A chunk before and after its bias is added (in fp32 only after), and the last chunk.
            at_once = 1 if how.precision == "fp32" else 2
            of_batch = (stage.microbatch or stage.batch) * scores
            chunks = min((at_once + 1) * CHUNK[how.device], at_once * of_batch) * FP32
            losses = (o for o in net.network.head_operations(1) if isinstance(o, VocabularyLoss))
            largest = max((loss.rows * loss.vocab for loss in losses), default=0)
            unrounded = how.unrounded_bytes * largest
            yield MemoryPoint(fixed + max(slope, chunks), net.kept + unrounded)
        if how.precision == "bf16":
            # The bf16 copy of the table is freed by then; its gradient replaces it.
            yield MemoryPoint(net.copies + net.slope * FP32, net.body_kept)

    def _layers(self, net: NetworkPass) -> Iterator[MemoryPoint]:
        """Points within each block of the layers, last layer first."""
        saved, copied = net.body_kept, net.copies
        users = Counter(block.owner for layer in net.layers for block in layer)
        gradients, done = 0, set[str]()
        # The token table's gradient from the head lives until the embeddings add theirs.
        fixed = net.slope * FP32 if net.network.vocabulary_heads else 0
        for layer in reversed(net.layers):
            if self.recompute:
                saved += sum(block.kept for block in layer) - net.input
                copied += sum(block.copies for block in layer)
            for block in reversed(layer):
                # Accumulated, a gradient is added to the existing one at once, but of a shared
                # weight only after its last user.
                added = 0 if block.owner in done else block.weights
                yield MemoryPoint(fixed + copied + gradients + added, saved + block.transient)
                gradients += 0 if self.accumulating and users[block.owner] == 1 else added
                done.add(block.owner)
                saved -= block.kept
            copied -= sum(block.copies for block in layer)

    def _end(self) -> Iterator[MemoryPoint]:
        """Points at the dense gradient of the token table, and at the optimiser's update."""
        gradients = self.parameters.trained * FP32
        first = next(net for net in self.passes if net.network.learned)
        begun = 0 if self.accumulating else gradients - first.slope * FP32
        # The head's gradient of the table is added to the embeddings' only here.
        halves = 2 if first.network.vocabulary_heads else 1
        embedded = self.stage.seq * first.network.body.embedding * FP32
        yield MemoryPoint(self._start + begun + halves * first.slope * FP32, embedded)
        remaining = 0 if self.accumulating else gradients
        update = temporary_bytes(self.stage, self.parameters.trained, self.budget.execution)
        yield MemoryPoint(self._start + remaining + update, 0)


def _batch_bytes(stage: Stage, device: DeviceKind) -> int:
    """Bytes of all batches corrupted in one call, and on a CPU of the rows read for the next."""
    at_once, ahead = 1, 2 * LONG
    if not isinstance(stage, TaskStage):
        ahead = 5  # of a token id and its segment id, as fetched
        if not adaptive_unit(stage):
            at_once = min(stage.steps, batches_at_once(stage.tokens_per_step, device))
    row = LONG * ((BY_TOKEN + stage.pack) * stage.seq + BY_PREDICTION * stage.predictions())
    read_ahead = ahead * stage.seq if device == "cpu" else 0
    return at_once * stage.batch * stage.rows_an_example * (row + read_ahead)


CONTEXT_BYTES, NCCL_BYTES = 2**29, 2**30
"""CUDA's context (kernels and stacks), and NCCL's buffers, per process outside torch's allocator.

Read from the sources of torch 2.13, not measured on a device (docs/estimates.md)."""
USABLE = {"cpu": 0.7, "cuda": 0.95}
"""Share of device memory that a step may use.

GPU: the rest is for fragmentation of the allocator. CPU: the C library holds on to freed blocks, up
to 0.3 of what a step needs (docs/measured.md)."""


def stage_memory(stage: Stage, parameters: Parameters, budget: DeviceBudget) -> Memory:
    """Memory of one stage; ``parameters`` counts the whole run's weights."""
    step = whole_step(stage, parameters, budget)
    fit = fit_of(step)
    microbatch = stage.microbatch or largest_divisor(stage.batch, fit.examples)
    accumulating = step.accumulating or microbatch < stage.batch
    if (accumulating, fit.recompute) != (step.accumulating, step.recompute):
        step = replace(step, accumulating=accumulating, recompute=fit.recompute)
    *smaller, most = split_rows(stage)
    parts = [(step, min(microbatch, most.batch))]
    for part in smaller:  # they come first, so that there are no gradients yet to add to
        masked, rows = part.model_copy(update={"batch": stage.batch}), min(microbatch, part.batch)
        again = budget.strategy == "ddp" or microbatch < part.batch
        parts.append((replace(step, stage=masked, accumulating=again), rows))
    return Memory(
        weights_bytes=parameters.total * FP32, gradients_bytes=parameters.trained * FP32,
        optimizer_bytes=state_bytes(stage, parameters.total),
        methods_bytes=methods_bytes(stage, parameters.total),
        activations_bytes=max(rows * part.kept for part, rows in parts),
        peak_bytes=max(point.at(rows) for part, rows in parts for point in part.points),
        microbatch=microbatch, largest_microbatch=fit.examples, recompute=fit.recompute,
    )  # fmt: skip


def whole_step(stage: Stage, parameters: Parameters, budget: DeviceBudget) -> Step:
    """The step with its batch as one micro-batch, nothing recomputed; DDP accumulates.

    Rows that are read causally take more than others, since all their states are scored.
    """
    *smaller, most = split_rows(stage)
    accumulating = budget.strategy == "ddp" or bool(smaller)
    most = most.model_copy(update={"batch": stage.batch}) if smaller else stage
    return Step(most, parameters, budget, accumulating, recompute=False)


def fit_of(step: Step) -> Fit:
    """The largest micro-batch that fits, and whether that takes recomputing the layers."""
    recomputed = partial(_most, replace(step, recompute=True))
    return choose_fit(step.stage, step.budget, _most(step), recomputed)


def _most(step: Step) -> int:
    """The largest micro-batch that fits, in examples; 0 if none does."""
    budget, device = step.budget, step.budget.execution.device
    available = budget.memory_bytes
    if device == "cuda":
        available -= CONTEXT_BYTES * (not budget.begun)
        available -= NCCL_BYTES * (budget.strategy != "single")
    usable = int(available * USABLE[device])
    largest = _below(step.points, usable)
    if (step.stage.microbatch or largest) >= step.stage.batch:
        return largest
    return _below(replace(step, accumulating=True).points, usable)


def _below(points: tuple[MemoryPoint, ...], usable: int) -> int:
    """The largest micro-batch for which every memory point fits; constant points must fit too."""
    if any(point.fixed > usable for point in points):
        return 0
    return min((usable - p.fixed) // p.per_example for p in points if p.per_example)
