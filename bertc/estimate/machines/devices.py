"""Devices by name: known accelerators, devices given as figures, and this machine's CPU."""

import difflib
import math
import os
from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import UsageError
from bertc.estimate.machines.accelerators import (
    ACCELERATORS,
    GIB,
    GIGA,
    LAUNCH_SECONDS,
    PRODUCTS_OF_A_STEP,
    TERA,
    accelerator_called,
)
from bertc.estimate.machines.calibration import calibration_here, cpu_flags
from bertc.estimate.machines.device import Device, device_in
from bertc.estimate.machines.rates import Rates
from bertc.estimate.machines.reference import reference
from bertc.planning.cores import available_cores

NAMES = (*ACCELERATORS, "cpu")
UNITS = {
    "bf16": ("bf16_flops", TERA),
    "fp32": ("fp32_flops", TERA),
    "memory": ("memory_bytes", GIB),
    "bandwidth": ("bandwidth_bytes", GIGA),
    "link": ("link_bytes", GIGA),
}
"""Figures that a user may give, and their units: TFLOP/s, GiB, GB/s."""
MOST = 1e6
"""Upper limit for a given figure, in its unit."""
HOW_TO_GIVE = '--device "NAME,bf16=312,fp32=19.5,memory=79,bandwidth=2039" (TFLOP/s, GiB, GB/s)'

UNCALIBRATED = (
    "rates of {cores} as of another processor with {vectors}; bertc calibrate measures\n"
    "this one in less than a minute"
)
CALIBRATED = "rates of {cores} that were measured here (bertc calibrate, torch {torch})"


def device_named(name: str, processes: int = 1) -> Device:
    """Find a device: a known name, figures (``HOW_TO_GIVE``), or a device file (``.json``).

    ``cpu`` is this machine's CPU, shared by ``processes``.

    Raises:
        UsageError: if the name is unknown, or a figure is wrong or missing.
        MissingInputError, DataError: if the file is missing or invalid.
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


BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}
UNMEASURED = 0.92
"""Share of the reference's rates for an uncalibrated processor.

Told without it / measured, alone on two cores: 1.01 (AMX, bf16), 1.10 (AMX held to AVX2), 1.14
(AVX-512), 1.17 to 1.22 (AVX2), the last three in fp32; on one core 1.08 (AVX2)."""


def this_cpu(processes: int = 1, threads: int = 0) -> Device:
    """One process's share of this CPU: cores, memory, fast bf16 or not.

    ``OMP_NUM_THREADS`` limits the cores, as it does for torch; ``threads`` (0: any) says how many
    are used whatever it is.
    """
    flags = cpu_flags()
    fast_bf16 = bool(BF16_FLAGS & flags)
    wide = "avx512f" in flags
    cores, most = available_cores() / processes, os.environ.get("OMP_NUM_THREADS", "")
    if threads:
        cores = min(cores, threads)
    elif most.isdecimal() and int(most):
        cores = min(cores, int(most))
    measured = calibration_here()
    said = f"{cores:.2g} core{'s' * (cores != 1)}"
    if measured:
        rates = measured.at(cores)
        source = CALIBRATED.format(cores=said, torch=measured.torch)
    else:
        rates = reference(wide=wide).times(cores * UNMEASURED)
        vectors = "AVX-512" if wide else "AVX2"
        source = UNCALIBRATED.format(cores=said, vectors=vectors)
    return Device(
        name="cpu",
        kind="cpu",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // processes,
        bf16_flops=_fastest(rates, "bf16") if fast_bf16 else 0.0,
        loops_bf16=not fast_bf16 and not wide,
        fp32_flops=_fastest(rates, "fp32"),
        product_share=1.0,
        cores=cores,
        rates=rates,
        source=source,
    )


def _fastest(rates: Rates, precision: str) -> float:
    """FLOP/s of the fastest measured matmul, used as a CPU's peak."""
    return max(point.rate for point in rates.products[precision])
