"""The machine of a run: its device, memory and speed, its plan, and deterministic kernels."""

import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertc.base.cores import GROUPS, available_cores, system_text
from bertc.base.diagnostics import MachineError
from bertc.cost import Device, largest_microbatches, layout_on, this_cpu
from bertc.cost.machines.device import cpu_info
from bertc.cost.machines.devices import LAUNCH_SECONDS, PRODUCTS_OF_A_STEP, accelerator_called
from bertc.cost.planning.plan import Machine, Plan, plan
from bertc.cost.planning.world import ALONE, World
from bertc.ir.program import Resolved, Run
from bertc.model.native.kernels import missing

COMPILER, ONE_ORDER = "torch._inductor.config", "TORCHINDUCTOR_DETERMINISTIC"
SUMS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "MKL_CBWR": "AUTO", ONE_ORDER: "1"}
"""Environment variables that make sums deterministic, read when the libraries are first used.

cuBLAS: fixed buffers, fixed results. MKL: no scheduling by load, and no choice of a kernel by
address (Developer Guide, "Obtaining Numerically Reproducible Results"). The compiler has a mode
of its own."""
MATMUL = {"cpu": (2048, 1), "cuda": (8192, 8)}
"""Width of the timed products, and their number between two looks at the clock."""
MATMUL_SECONDS = 0.3
COPIED_NUMBERS = 1 << 26
SHARE_OF_MEASURED = PRODUCTS_OF_A_STEP / 0.79
"""Fraction of the measured rate that a step's products reach.

An A100's large products reach 0.79 of the peak on its data sheet, so that steps get a larger
fraction of a measured rate than of a published one."""


def detect(device: str = "auto", processes: int = 1) -> Machine:
    """Detect the device for a run: CUDA if there is one, unless ``device`` names another.

    ``memory_bytes`` is the free memory of the device; ``processes`` of this machine share its main
    memory.
    """
    cores = available_cores()
    if device in ("auto", "cuda") and torch.cuda.is_available():
        name, (free, _) = torch.cuda.get_device_name(), torch.cuda.mem_get_info()
        return Machine(
            device="cuda", name=name, memory_bytes=free,
            fast_bf16=torch.cuda.is_bf16_supported(including_emulation=False), cores=cores,
            devices=torch.cuda.device_count(),
        )  # fmt: skip
    cpu = this_cpu()
    fast_bf16 = cpu.bf16_flops > 0
    return Machine(
        device="cpu", name=_processor(), memory_bytes=_free_memory_bytes() // processes,
        fast_bf16=fast_bf16, loops_bf16=cpu.loops_bf16, cores=cores,
        without_kernels=missing("bf16" if fast_bf16 else "fp32"),
    )  # fmt: skip


def _processor() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        named = subprocess.run(command, capture_output=True, text=True, check=False)
        return named.stdout.strip() or platform.machine()
    return cpu_info("model name") or platform.machine()


def _free_memory_bytes() -> int:
    """Main memory available without swapping, in bytes, within the limit of the control group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in system_text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = (system_text(GROUPS / f"memory.{name}") for name in ("max", "current"))
    if limit.strip().isdigit() and used.strip().isdigit():
        free = min(free, int(limit) - int(used))
    return free


def refuse_too_few_devices(device: str, processes: int) -> None:
    """Refuse more processes on a machine than it has GPUs, unless the run is on the CPU."""
    if device == "cpu" or processes == 1 or not torch.cuda.is_available():
        return
    devices = torch.cuda.device_count()
    if processes > devices:
        message = f"{processes} processes need a GPU each, but this machine has {devices}"
        help = f"--nproc {devices}" if devices > 1 else "leave --nproc out"
        raise MachineError(message, help)


def make_plan(
    resolved: Resolved, world: World = ALONE.world, machine: Machine | None = None
) -> Plan:
    """Plan the program for this machine, which is detected unless it is given."""
    machine = machine or detect(resolved.run.device, world.per_host)
    laid_out = layout_on(resolved, machine.memory_bytes, world)
    return plan(resolved, machine, largest_microbatches(resolved, machine, laid_out), laid_out)


def dtype_of(plan: Plan) -> torch.dtype:
    """The dtype of activations in a plan's precision."""
    return torch.bfloat16 if plan.precision == "bf16" else torch.float32


@contextmanager
def kernels(run: Run, device: str) -> Iterator[None]:
    """Allow inside this block only the kernels that the run may use on this kind of device."""
    compiled = run.compile != "off" and device == "cuda"
    with determinism(is_deterministic(run, device)), right_dropout(compiled):
        yield


def is_deterministic(run: Run, device: str) -> bool:
    """True if every sum has a fixed order: on a CPU always, elsewhere with deterministic=yes."""
    return run.deterministic == "yes" or device == "cpu"


@contextmanager
def determinism(enabled: bool = True) -> Iterator[None]:
    """Make sums the same to the bit in every run inside this block, if asked for.

    Kernels are slower then. On a GPU the backward of attention works in one block a head, scattered
    values are sorted first, and the compiler neither pads nor tunes (torch, attention_backward.cu
    and _inductor).
    """
    # torch ignores the quotas of control groups; beyond a quota all threads wait for its next
    # period. With an explicit number of threads MKL does not take fewer.
    threads = torch.get_num_threads()
    if not os.environ.get("OMP_NUM_THREADS"):
        threads = min(threads, available_cores())
    torch.set_num_threads(threads)
    with ExitStack() as stack:
        # The warning is about writing into outputs of a layer's parts, which bertc does not do.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        if enabled:
            stack.enter_context(_deterministic_libraries())
            stack.enter_context(_deterministic_kernels())
        yield


@contextmanager
def _deterministic_libraries() -> Iterator[None]:
    """Set the variables of ``SUMS`` inside this block, but for those that the user has set."""
    unset = SUMS.keys() - os.environ.keys()
    os.environ.update((name, SUMS[name]) for name in unset)
    # torch.use_deterministic_algorithms would load the compiler, which takes longer than the rest
    # of a run's start.
    compiler: Any = sys.modules.get(COMPILER)
    ordered = compiler.deterministic if compiler else ONE_ORDER not in unset
    if compiler:
        compiler.deterministic = os.environ[ONE_ORDER] == "1"
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]
        compiler = sys.modules.get(COMPILER)
        if compiler:
            compiler.deterministic = ordered


@contextmanager
def _deterministic_kernels() -> Iterator[None]:
    """Let torch refuse every non-deterministic kernel inside this block."""
    before = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    except RuntimeError as error:
        name, refused, _ = str(error).partition(" does not have a deterministic implementation")
        if not refused:
            raise
        message = f"deterministic=yes: torch has no deterministic kernel for {name}"
        raise MachineError(message, help="deterministic=no, in a new run") from None
    finally:
        torch.set_deterministic_debug_mode(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


@contextmanager
def right_dropout(compiled: bool) -> Iterator[None]:
    """Disable kernels whose dropout, or gradient under a mask, is wrong on a GPU.

    cuDNN's attention gives NaN gradients under some masks (pytorch issue 196678; so on an H100),
    and earlier ones drop multiples of 1/16 only (PR 174245). From torch 2.13 on the compiler makes
    four draws at once and repeats them for elements that are not adjacent in memory (issue
    198333), but not where it draws as eager steps do. ``compiled``: a step may be.
    """
    attention = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with _single_draws() if compiled else nullcontext():
            yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(attention)


def _single_draws() -> AbstractContextManager[object]:
    from torch._inductor import config
    from torch._inductor.codegen.triton import TritonOverrides

    if not hasattr(TritonOverrides, "_can_use_4x_random"):
        return nullcontext()
    patched: AbstractContextManager[object] = config.patch(align_random_eager=True)
    return patched


def device_here(machine: Machine, processes: int = 1) -> Device:
    """The figures of a run's device, for one of ``processes``; an unknown GPU is measured."""
    if machine.device == "cpu":
        return this_cpu(processes)
    if known := accelerator_called(machine.name):
        return replace(known, memory_bytes=machine.memory_bytes)
    return measure_device(machine)


def measure_device(machine: Machine) -> Device:
    """Measure matmul and copy rates of the GPU."""
    device = torch.device(machine.device)
    fp32 = matmul_flops_per_second(device, torch.float32)
    bf16 = matmul_flops_per_second(device, torch.bfloat16) if machine.fast_bf16 else 0.0
    source = torch.zeros(COPIED_NUMBERS, device=device)
    target = torch.empty_like(source)
    copy_seconds = _least_seconds(device, lambda: target.copy_(source))
    return Device(
        name=machine.name, kind=machine.device, memory_bytes=machine.memory_bytes,
        bf16_flops=bf16, fp32_flops=fp32,
        bandwidth_bytes=2 * source.nbytes / copy_seconds,  # read and written
        product_share=SHARE_OF_MEASURED, launch_seconds=LAUNCH_SECONDS,
        source="of large products and copies that were measured here; shares as on an A100",
    )  # fmt: skip


def finish(device: torch.device) -> None:
    """Wait until the device has finished all work queued on it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_flops_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of a large square matmul in FLOPs per second, an upper bound for steps."""
    n, products = MATMUL[device.type]
    first, second = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    result = first @ second

    def multiply() -> None:
        for _ in range(products):
            torch.mm(first, second, out=result)

    return products * 2 * n**3 / _least_seconds(device, multiply)


def _least_seconds(device: torch.device, work: Callable[[], object]) -> float:
    """The seconds of the fastest of the calls within ``MATMUL_SECONDS``, of one at least."""
    finish(device)
    least, until = math.inf, time.perf_counter() + MATMUL_SECONDS
    while time.perf_counter() < until or least == math.inf:
        started = time.perf_counter()
        work()
        finish(device)
        least = min(least, time.perf_counter() - started)
    return least
