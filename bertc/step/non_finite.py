"""What to say of a step whose loss or gradient is not a number."""

import math
from collections.abc import Sequence

SHOWN_EXAMPLES = 8
CALMER = (
    "a lower learning rate, a longer warm-up or precision=fp32, in a new run; "
    "checkpoints up to here are good"
)
AT_THE_BEGINNING = (
    "these are the weights that a run begins with, so no rate has a part in it: precision=fp32 "
    "shows whether rounding has, and bertc train with compile=off whether the compiler has"
)


def what_to_try(step: int) -> str:
    """What may help after so many steps; those of ``bertc build`` are all the first one."""
    return CALMER if step else AT_THE_BEGINNING


def what_is_not_finite(
    names: Sequence[str],
    totals: Sequence[float],
    parts: Sequence[Sequence[float]],
    example_ids: Sequence[int],
    microbatch: int,
) -> str:
    """What is not finite, and where; nothing if it is in another process's examples.

    ``totals`` are the losses of the whole batch by name, ``parts`` those of the micro-batches here,
    ``example_ids`` of the rows here, where rows have a number.
    """
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
