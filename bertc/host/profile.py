"""A profile of a few warm steps: what their parts take, a trace, and a table of operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from bertc.estimate.beside import Measured
from bertc.host.measured import measured
from bertc.storage import durable

COLD_STEPS, WARM_UP_STEPS, STEPS = 5, 2, 3
"""Steps that are skipped, steps that warm the profiler up, and steps that are recorded."""
PROFILED_STEPS = COLD_STEPS + WARM_UP_STEPS + STEPS
TABLE_ROWS = 40
TRACE, TABLE = "trace.json", "ops.txt"


@dataclass
class Recording:
    """A profile under way; ``step_is_done`` is called after every step."""

    step_is_done: Callable[[], None]
    measured: Measured | None = None
    """Time and memory of the parts, once the steps were recorded."""


@contextmanager
def profiling(folder: Path | None, device: torch.device) -> Iterator[Recording]:
    """Profile a stage; fewer than 8 steps leave nothing, fewer than 10 no time by part.

    Leaves in ``folder``, if there is one, ``trace.json`` in Chrome's format (chrome://tracing,
    Perfetto) and ``ops.txt``, the operations by their own time on the device.

    Raises:
        CannotWriteError: if the folder cannot be made.
    """
    if folder is not None:
        with durable.writing(folder, 0):
            folder.mkdir(parents=True, exist_ok=True)
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)

    def recorded(profiled: profile) -> None:
        if profiled.step_num == PROFILED_STEPS:  # else the stage ended before
            recording.measured = measured(profiled, device=device.type)
        if folder is not None:
            _write(folder, device, profiled)

    with profile(
        activities=activities,
        schedule=schedule(wait=COLD_STEPS, warmup=WARM_UP_STEPS, active=STEPS, repeat=1),
        on_trace_ready=recorded,
        profile_memory=True,
        acc_events=True,
    ) as running:
        recording = Recording(running.step)
        yield recording


def not_profiling() -> Recording:
    """A recording that records nothing."""
    return Recording(lambda: None)


def _write(folder: Path, device: torch.device, profiled: profile) -> None:
    key = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    table = profiled.key_averages().table(sort_by=key, row_limit=TABLE_ROWS)
    with durable.writing(folder):
        try:
            profiled.export_chrome_trace(str(folder / TRACE))
            (folder / TABLE).write_text(f"{STEPS} steps\n{table}\n")
        except BaseException:
            for name in (TRACE, f"{TRACE}.tmp", TABLE):
                (folder / name).unlink(missing_ok=True)
            raise
