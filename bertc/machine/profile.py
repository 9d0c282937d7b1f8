"""A profile of a few warm steps, and counters of torch's compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from bertc.base.storage import durable

COLD_STEPS, WARM_UP_STEPS, STEPS = 5, 2, 3
"""Steps that are skipped, steps that warm the profiler up, and steps that are recorded."""
TABLE_ROWS = 40
TRACE, TABLE = "trace.json", "ops.txt"


@contextmanager
def profiling(folder: Path | None, device: torch.device) -> Iterator[Callable[[], None]]:
    """Profile a stage into ``folder``, if there is one; the result is called after every step.

    Leaves ``trace.json`` in Chrome's format (chrome://tracing, Perfetto), where the parts of a step
    have their names (``model/parts.py``), and ``ops.txt``, the operations by their own time on the
    device. Fewer than 8 steps leave nothing.
    """
    if folder is None:
        yield lambda: None
        return
    with durable.writing(folder, 0):
        folder.mkdir(parents=True, exist_ok=True)
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=COLD_STEPS, warmup=WARM_UP_STEPS, active=STEPS, repeat=1),
        on_trace_ready=partial(_write, folder, device),
        profile_memory=True,
        acc_events=True,
    ) as running:
        yield running.step


def _write(folder: Path, device: torch.device, profiled: profile) -> None:
    key = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    table = profiled.key_averages().table(sort_by=key, row_limit=TABLE_ROWS)
    with durable.writing(folder):
        profiled.export_chrome_trace(str(folder / TRACE))
        (folder / TABLE).write_text(f"{STEPS} steps\n{table}\n")


@dataclass(frozen=True)
class Graphs:
    """Counts of compiled graphs and graph breaks."""

    compiled: int
    breaks: int

    def since(self, earlier: "Graphs") -> "Graphs":
        """The counts since an earlier moment."""
        return Graphs(self.compiled - earlier.compiled, self.breaks - earlier.breaks)


def graphs_so_far() -> Graphs:
    """The counts until now; a new graph in a later step is a recompilation."""
    from torch._dynamo.utils import counters  # the compiler takes a second to load

    return Graphs(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
