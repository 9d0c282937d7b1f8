"""What this machine offers a run."""

import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bertc.data import Corpus, TaskData
from bertc.estimate import Estimate, estimate, largest_microbatches, layout
from bertc.estimate.accelerators import accelerator_called
from bertc.estimate.devices import available_cores, this_cpu
from bertc.ir.resolved import Resolved
from bertc.passes import ALONE, Machine, Plan, World, plan
from bertc.train.speed import device_here


def detect(wanted: str = "auto", processes: int = 1) -> Machine:
    """The device a run would use: CUDA where there is one, unless ``wanted`` is ``cpu``.

    Its memory is what is free of it. Main memory is shared by the ``processes`` of this machine.
    """
    cores = available_cores()
    if wanted != "cpu" and torch.cuda.is_available():
        name, (free, _) = torch.cuda.get_device_name(), torch.cuda.mem_get_info()
        known = accelerator_called(name)
        return Machine(
            device="cuda",
            name=name,
            memory_bytes=free,
            fast_bf16=torch.cuda.is_bf16_supported(including_emulation=False),
            cores=cores,
            fp16_gain=known.fp16_flops / known.fp32_flops if known else 0.0,
        )
    return Machine(
        device="cpu",
        name=_processor(),
        memory_bytes=_free_memory_bytes() // processes,
        fast_bf16=this_cpu().bf16_flops > 0,
        cores=cores,
    )


def cost_here(resolved: Resolved, corpus: Corpus, world: World) -> Estimate:
    """What a run is expected to cost on this machine; a GPU that nobody knows is measured first."""
    machine = detect(resolved.run.device, world.per_host)
    lengths = [
        data.row_length if isinstance(data, TaskData) else data.seq for data in corpus.stages
    ]
    device = device_here(machine, world.per_host)
    return estimate(resolved, device, devices=world.size, lengths=lengths)


def _processor() -> str:
    """The name of the processor."""
    lines = _read("/proc/cpuinfo").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _free_memory_bytes() -> int:
    """Main memory that can be had without swapping, within the limit of the control group."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    free = pages * page_bytes
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit.strip().isdigit() and used.strip().isdigit():
        free = min(free, int(limit) - int(used))
    return free


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def make_plan(resolved: Resolved, world: World = ALONE.world) -> Plan:
    """How the program runs here.

    Raises:
        MachineError: if the machine lacks the device or the memory.
        UsageError: if there are more processes than examples in a batch.
    """
    machine = detect(resolved.run.device, world.per_host)
    laid_out = layout(resolved, machine, world)
    return plan(resolved, machine, largest_microbatches(resolved, machine, laid_out), laid_out)


@contextmanager
def determinism() -> Iterator[None]:
    """The same sums in the same order in every run, at the price of a few slower kernels.

    Where a CUDA kernel has no such order, it is used all the same.
    """
    before = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    # Read when the libraries are first used. cuBLAS: fixed buffers, fixed results. MKL: no
    # scheduling by load, and no choice of a kernel by address (Developer Guide, "Obtaining
    # Numerically Reproducible Results"); naming the number of threads forbids it to take fewer.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ.setdefault("MKL_CBWR", "AUTO")
    # The compiler has a mode of its own, read when it is loaded; torch.use_deterministic_algorithms
    # would load it, which takes longer than all else that a run begins with.
    os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")
    torch.set_num_threads(torch.get_num_threads())
    torch.set_deterministic_debug_mode("warn" if torch.cuda.is_available() else "error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            for said in ("does not have a deterministic", "defaults to a non-deterministic"):
                warnings.filterwarnings("ignore", message=f".*{said}")
            # Nothing here writes into what a part of a layer returns.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
            yield
    finally:
        torch.set_deterministic_debug_mode(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
