"""The time and memory of a step's parts, read from a profile of some steps.

Forward is part by part under its names (``host/parts.py``). Backward has no names: its nodes go by
the number of the operation in forward that made them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import profile

from bertc.estimate.beside import Measured
from bertc.host.parts import PROFILED_PARTS

STEP = "ProfilerStep"
BACKWARD = "autograd::engine::evaluate_function"
AROUND = ("optimiser", "loader")
"""Parts of a step that are of no pass."""
US = 1e-6


class _Place(NamedTuple):
    """The part that an event belongs to, if any, and whether it is of backward."""

    part: str | None
    backward: bool


_NOWHERE = _Place(None, False)


def measured(profiled: profile, *, device: str) -> Measured:
    """Means of the recorded steps; on a GPU seconds and bytes are its own."""
    events = sorted(
        (each for each in _events(profiled) if each.device_type == DeviceType.CPU),
        key=lambda each: (each.time_range.start, -each.time_range.end),
    )
    steps = [event for event in events if event.name.startswith(STEP)]
    places = _places(events)
    seconds, kept = defaultdict[str, float](float), Counter[str]()
    for event in events:
        part, backward = places[id(event)]
        if part is None:
            continue
        seconds[part] += US * _own_us(event, device)
        if not backward and part not in AROUND:
            kept[part] += _own_bytes(event, device)
    # A pass is named after its head as a whole, with the other parts within.
    passes = sum(e.name == "head" and _above(e, places) == _NOWHERE for e in events)
    return Measured(
        seconds={part: total / len(steps) for part, total in seconds.items()},
        activations_bytes={part: round(total / passes) for part, total in kept.items()},
        step_seconds=US * sum(map(_elapsed_us, steps)) / len(steps),
    )


def _places(events: Sequence[FunctionEvent]) -> dict[int, _Place]:
    """The place of every event by its ``id()``; ``events`` are in time order."""
    places: dict[int, _Place] = {}
    maker: dict[int, str | None] = {}
    previous: str | None = None
    for event in events:
        place = _above(event, places)
        if event.name in PROFILED_PARTS and place.part != "teacher":
            place = place._replace(part=event.name)
        elif event.name.startswith(BACKWARD):
            # A gradient that is added up has no number: it follows the node that made it.
            previous = maker.get(event.sequence_nr, previous)
            place = _Place(previous, backward=True)
        elif event.sequence_nr >= 0 and not place.backward:
            # Operations without a gradient have the number of the next one that has: it is later.
            maker[event.sequence_nr] = place.part
        places[id(event)] = place
    return places


def _events(profiled: profile) -> Iterable[FunctionEvent]:
    return profiled.events() or ()  # type: ignore[no-untyped-call]


def _above(event: FunctionEvent, places: dict[int, _Place]) -> _Place:
    return places.get(id(event.cpu_parent), _NOWHERE)


def _elapsed_us(event: FunctionEvent) -> float:
    return float(event.time_range.end - event.time_range.start)


def _own_us(event: FunctionEvent, device: str) -> float:
    if device == "cpu":
        return float(event.self_cpu_time_total)
    return float(sum(kernel.duration for kernel in event.kernels))


def _own_bytes(event: FunctionEvent, device: str) -> int:
    """Bytes allocated and not freed."""
    if device == "cpu":
        return int(event.self_cpu_memory_usage)
    return int(event.self_device_memory_usage)
