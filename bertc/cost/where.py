"""Time and memory of a step by part."""

from collections import Counter

from bertc.cost.blocks import kept_by
from bertc.cost.execution import FP32
from bertc.cost.figures import PartCost
from bertc.cost.memory_points import Step
from bertc.cost.spent import ByPart, Spent
from bertc.cost.update import state_bytes


def part_costs(step: Step, microbatch: int, seconds: ByPart) -> tuple[PartCost, ...]:
    """Cost of each part of one planned step with ``microbatch`` examples at once."""
    saved, weights = _kept(step), _weights(step)
    total = step.parameters.total
    states = {part: 2 * FP32 * count for part, count in weights.items()}
    states["head"] = 2 * FP32 * (total - sum(weights.values()))
    states["optimiser"] = state_bytes(step.stage, total)
    states["teacher"] = FP32 * step.parameters.frozen
    taught = ("teacher",) if "teacher" in seconds else ()
    passes = (one for one in step.passes if one.network.learned)
    layers = (layer for one in passes for layer in one.forward.layers)
    inside = dict.fromkeys(block.part for layer in layers for block in layer)
    parts = []
    for part in ("embeddings", *inside, "head", *taught, "optimiser", "loader"):
        spent = seconds.get(part, Spent())
        parts.append(
            PartCost(
                part=part,
                seconds=spent.seconds,
                arithmetic_seconds=spent.arithmetic,
                memory_seconds=spent.memory,
                start_seconds=spent.starts,
                state_bytes=states.get(part, 0),
                activations_bytes=microbatch * saved[part],
            )
        )
    return tuple(parts)


def _kept(step: Step) -> Counter[str]:
    """Bytes saved for backward per example, by part; a recomputed layer saves only its input."""
    saved: Counter[str] = Counter()
    for one in step.passes:
        if not one.network.terms:
            continue
        saved["embeddings"] += kept_by(one.forward.embeddings, step.budget.execution)
        for layer, sizes in zip(one.forward.layers, one.layers, strict=True):
            for block, size in zip(layer, sizes, strict=True):
                saved[block.part] += 0 if step.recompute else size.kept
            saved[layer[0].part] += one.input if step.recompute else 0
        saved["head"] += one.kept - one.body_kept + kept_by(one.forward.last, step.budget.execution)
        saved["head"] += one.states
    return saved


def _weights(step: Step) -> dict[str, int]:
    """Bytes of embeddings and layers by part; the remaining weights belong to heads."""
    by_owner = {
        (at, block.owner): (block.part, block.weights)
        for at, one in enumerate(step.passes)
        if one.network.learned
        for layer in one.forward.layers
        for block in layer
    }
    weights: Counter[str] = Counter(embeddings=step.parameters.by_part.get("embeddings", 0))
    for part, count in by_owner.values():
        weights[part] += count
    return dict(weights)
