"""Error messages for a loss or gradient that is not finite."""

import math
from collections.abc import Sequence

SHOWN_EXAMPLES = 8
CALMER = (
    "a lower learning rate, a longer warm-up or precision=fp32, in a new run; "
    "checkpoints up to here are good"
)
AT_THE_BEGINNING = (
    "the weights are still the initial ones, so it is not the learning rate: try precision=fp32 "
    "to rule out rounding, and bertc train with compile=off to rule out the compiler"
)


def what_to_try(step: int) -> str:
    """Advice for a failure at ``step``; in ``bertc build`` always that for the first one."""
    return CALMER if step else AT_THE_BEGINNING


def what_is_not_finite(
    names: Sequence[str],
    totals: Sequence[float],
    parts: Sequence[Sequence[float]],
    example_ids: Sequence[int],
    microbatch: int,
) -> str:
    """Name the loss or gradient that is not finite, and its examples if they are this process's."""
    if all(map(math.isfinite, totals)):
        what = f"the gradient of {' + '.join(names)} is not finite though the loss is"
        return what + _beginning(", in a batch", example_ids)
    for index, part in enumerate(parts):
        bad = [name for name, value in zip(names, part, strict=True) if not math.isfinite(value)]
        if bad:
            what = f"the loss of {' and '.join(bad)} is not a finite number"
            return what + _beginning(", in a micro-batch", example_ids[index * microbatch :])
    return ""


def _beginning(where: str, example_ids: Sequence[int]) -> str:
    if not example_ids:
        return ""
    return f"{where} that begins with examples {', '.join(map(str, example_ids[:SHOWN_EXAMPLES]))}"
