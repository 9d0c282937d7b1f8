"""Time and memory of a step by part, as figures and as a table."""

from collections import Counter
from collections.abc import Sequence

from bertc.cost.blocks import kept_by
from bertc.cost.duration import StepTime
from bertc.cost.execution import FP32
from bertc.cost.figures import PartCost, StageEstimate, Totals
from bertc.cost.memory_points import Step
from bertc.cost.spent import Spent
from bertc.cost.units import bytes_text, duration_text
from bertc.cost.update import state_bytes

TITLES = {"ffn": "feed-forward", "loader": "loader and masking"}
LABEL, COLUMN = 20, 13
LEGEND = (
    "Parts, forward and backward: attention and feed-forward of all layers with norms and dropout;",
    "head is all that makes losses of the last states, optimiser norm, clipping and update.",
    "What bounds them: arithmetic, memory traffic, or the start of operations.",
    "State: weights with gradients, of the optimiser moments and averages of weights. Activations:",
    "what forward of a micro-batch leaves for backward.",
)


def part_costs(step: Step, microbatch: int, time: StepTime) -> tuple[PartCost, ...]:
    """Cost of each part of one planned step with ``microbatch`` examples at once."""
    kept, weights = _kept(step), _weights(step)
    total = step.parameters.total
    states = {part: 2 * FP32 * count for part, count in weights.items()}
    states["head"] = 2 * FP32 * (total - sum(weights.values()))
    states["optimiser"] = state_bytes(step.stage, total)
    states["teacher"] = FP32 * step.parameters.frozen
    taught = ("teacher",) if "teacher" in time.parts else ()
    found = []
    for part in ("embeddings", *_inside(step), "head", *taught, "optimiser", "loader"):
        spent = time.parts.get(part, Spent())
        found.append(
            PartCost(
                part=part,
                seconds=spent.seconds,
                arithmetic_seconds=spent.arithmetic,
                memory_seconds=spent.memory,
                start_seconds=spent.starts,
                state_bytes=states.get(part, 0),
                activations_bytes=microbatch * kept[part],
            )
        )
    return tuple(found)


def _inside(step: Step) -> tuple[str, ...]:
    """The parts of layers, in the order in which they are met."""
    passes = (one for one in step.passes if one.network.learned)
    layers = (layer for one in passes for layer in one.forward.layers)
    return tuple(dict.fromkeys(block.part for layer in layers for block in layer))


def _kept(step: Step) -> Counter[str]:
    """Bytes saved for backward per example, by part; a recomputed layer saves only its input."""
    found: Counter[str] = Counter()
    for one in step.passes:
        if not one.network.terms:
            continue
        found["embeddings"] += kept_by(one.forward.embeddings, step.budget.execution)
        for layer, sizes in zip(one.forward.layers, one.layers, strict=True):
            for block, size in zip(layer, sizes, strict=True):
                found[block.part] += 0 if step.recompute else size.kept
            found[layer[0].part] += one.input if step.recompute else 0
        found["head"] += one.kept - one.body_kept + kept_by(one.forward.last, step.budget.execution)
        found["head"] += one.states
    return found


def _weights(step: Step) -> dict[str, int]:
    """Bytes of embeddings and layers by part; the remaining weights belong to heads."""
    by_owner = {
        (at, block.owner): (block.part, block.weights)
        for at, one in enumerate(step.passes)
        if one.network.learned
        for layer in one.forward.layers
        for block in layer
    }
    found: Counter[str] = Counter(embeddings=step.parameters.by_part.get("embeddings", 0))
    for part, count in by_owner.values():
        found[part] += count
    return dict(found)


def where_table(estimates: Sequence[Totals]) -> str:
    """One table per stage, then what rows and columns mean."""
    tables = (
        "\n".join(_lines(estimate.name, stage))
        for estimate in estimates
        for stage in estimate.stages
    )
    time = estimates[0].time
    return "\n\n".join((*tables, "\n".join((*LEGEND, f"Time on {time.device}:", time.basis))))


def _lines(name: str, stage: StageEstimate) -> list[str]:
    whole = sum(cost.seconds for cost in stage.where) or 1.0
    rows = [
        (
            TITLES.get(cost.part, cost.part),
            duration_text(cost.seconds),
            f"{100 * cost.seconds / whole:.0f}%",
            *(_share(s, cost.seconds) for s in (cost.arithmetic_seconds, cost.memory_seconds)),
            _share(cost.start_seconds, cost.seconds),
            bytes_text(cost.state_bytes),
            bytes_text(cost.activations_bytes),
        )
        for cost in stage.where
    ]
    head = ("a step", "of it", "arithmetic", "memory", "start-up", "state", "activations")
    step = stage.time.step_text
    return [
        f"{name}, stage {stage.name}",
        " " * LABEL + "".join(title.rjust(COLUMN) for title in head),
        *(row[0].ljust(LABEL) + "".join(cell.rjust(COLUMN) for cell in row[1:]) for row in rows),
        "whole step".ljust(LABEL) + step.rjust(COLUMN),
    ]


def _share(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole:.0f}%" if whole else ""
