"""Devices by name: known ones, those whose figures are given, and the CPU that bertc runs on."""

import difflib
import math
import os
from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import UsageError
from bertc.estimate.accelerators import (
    ACCELERATORS,
    GIB,
    GIGA,
    LAUNCH_SECONDS,
    PRODUCTS_OF_A_STEP,
    TERA,
    accelerator_called,
)
from bertc.estimate.device import Device, device_in
from bertc.planning.cores import available_cores

NAMES = (*ACCELERATORS, "cpu")
UNITS = {
    "bf16": ("bf16_flops", TERA),
    "fp32": ("fp32_flops", TERA),
    "memory": ("memory_bytes", GIB),
    "bandwidth": ("bandwidth_bytes", GIGA),
    "link": ("link_bytes", GIGA),
}
"""The figures that one may give, and their units: TFLOP/s, GiB, GB/s."""
MOST = 1e6
"""Of any unit, more than there will be."""
HOW_TO_GIVE = '--device "NAME,bf16=312,fp32=19.5,memory=79,bandwidth=2039" (TFLOP/s, GiB, GB/s)'

BF16_FLOPS_PER_CORE = 200e9
FP32_FLOPS_PER_CORE = 100e9
CPU_PRODUCT_SHARE = 0.9
CPU_KEPT_SECONDS = 1.1e-9
CPU_WEIGHT_SECONDS = 1.8e-9
CPU_SOURCE = (
    "eager steps 64 to 768 wide on a server CPU with AVX-512: products at 0.9 of 200 GFLOP/s a\n"
    "core in bf16, 100 in fp32; 1.1 ns a byte kept for backward, 1.8 ns a weight applied or moved"
)


def device_named(name: str, processes: int = 1) -> Device:
    """The device that is meant: a name, figures (``HOW_TO_GIVE``) or a device file (``.json``).

    ``cpu`` is this machine's, shared by so many processes.

    Raises:
        UsageError: if there is none of that name, or a figure is wrong or missing.
        MissingInputError, DataError: if the file is not there, or is none.
    """
    if name.endswith(".json"):
        return device_in(Path(name))
    title, *figures = (part.strip() for part in name.split(","))
    if title.lower() == "cpu" and not figures:
        return this_cpu(processes)
    known = accelerator_called(title)
    if figures:
        return _with_figures(title, known, figures)
    if known:
        return known
    near = difflib.get_close_matches(title.lower(), NAMES, n=1)
    hint = f"--device {near[0]}; " if near else ""
    raise UsageError(
        f"unknown device {title}",
        help=f"{hint}known are {', '.join(NAMES)}; give the figures of another: {HOW_TO_GIVE}",
    )


def _with_figures(title: str, known: Device | None, figures: Sequence[str]) -> Device:
    found: dict[str, float] = {}
    for figure in figures:
        key, _, text = figure.partition("=")
        if key.strip() not in UNITS:
            raise UsageError(
                f"a device has no figure {key.strip()!r}", help=f"{', '.join(UNITS)}: {HOW_TO_GIVE}"
            )
        field, unit = UNITS[key.strip()]
        found[field] = _number(figure, text) * unit
    if "memory_bytes" in found:
        found["memory_bytes"] = int(found["memory_bytes"])
    if known:
        return known.model_copy(update=found)
    needed = {"memory_bytes": "memory", "bandwidth_bytes": "bandwidth"}
    missing = [key for field, key in needed.items() if field not in found]
    if not {"bf16_flops", "fp32_flops"} & found.keys():
        missing.append("bf16 or fp32")
    if missing:
        raise UsageError(
            f"of the device {title}, which is not known, {' and '.join(missing)} must be given",
            help=HOW_TO_GIVE,
        )
    return Device(
        name=title,
        kind="cuda",
        product_share=PRODUCTS_OF_A_STEP,
        launch_seconds=LAUNCH_SECONDS,
        source="as on an A100; the figures of the device were given",
        **found,
    )


def _number(figure: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < MOST:
        raise UsageError(f"{figure!r} is no figure of a device", help=HOW_TO_GIVE)
    return value


def this_cpu(processes: int = 1) -> Device:
    """What one of so many processes has of the CPU bertc runs on: cores, memory, fast bf16 or not.

    ``OMP_NUM_THREADS`` says how many cores one may use, as it does to torch.
    """
    flags = _cpu_flags()
    fast_bf16 = bool({"avx512_bf16", "amx_bf16", "bf16", "svebf16"} & flags)
    fp32_flops = FP32_FLOPS_PER_CORE if "avx512f" in flags else FP32_FLOPS_PER_CORE / 2
    cores, threads = available_cores() / processes, os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads):
        cores = min(cores, int(threads))
    return Device(
        name="cpu",
        kind="cpu",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // processes,
        bf16_flops=BF16_FLOPS_PER_CORE * cores if fast_bf16 else 0.0,
        fp32_flops=fp32_flops * cores,
        product_share=CPU_PRODUCT_SHARE,
        source=f"{cores:.2g} of {available_cores()} cores for each process; {CPU_SOURCE}",
        kept_seconds=CPU_KEPT_SECONDS / cores,
        weight_seconds=CPU_WEIGHT_SECONDS / cores,
    )


def _cpu_flags() -> set[str]:
    """Instruction sets, where the system tells them (Linux)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.partition(":")[2].split())
    return set()
