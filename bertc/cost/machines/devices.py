"""Devices by name: known accelerators, devices given as figures, and this machine's CPU.

Accelerators are as their data sheets describe them. Peaks are dense: where a sheet prints figures
with sparsity, half of them. bf16 is with sums in fp32, as training has them; sheets of GeForce
cards print twice that for sums in fp16. Memory is what CUDA reports as total, in whole GiB below
what the sheets call GB; bandwidth is the sheet's.

Figures are those commonly quoted from the makers' data sheets and architecture papers, checked in
part against pages of others; the sheets were not opened for it (docs/estimates.md).
"""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc.base.cores import available_cores
from bertc.base.diagnostics import UsageError, nearest
from bertc.base.storage.plain_file import read_text
from bertc.cost.machines.device import Device, calibration_here, core_here, cpu_flags

GIB = 2**30
TERA, GIGA = 1e12, 1e9
LAUNCH_SECONDS = 23e-6
"""Host seconds per kernel of a step.

Chosen so that bert-mini takes the 15 ms measured on an H100 (docs/measured.md)."""
PRODUCTS_OF_A_STEP = 0.53
PRODUCTS_ON_HOPPER = 0.416
"""Share of the dense peak that the matmuls of a step reach."""
AMPERE = (
    "calibrated at 80% of the bandwidth: BERT-large at 128 tokens gets 44.7% of an\n"
    "A100 (NVIDIA DeepLearningExamples, BERT)"
)
HOPPER = (
    "calibrated at 80% of the bandwidth: bert-base at 512 tokens gets 33.8% of an H100\n"
    "(docs/measured.md)"
)
UNMEASURED = "no figure is published for encoders; as on an A100"


def _card(name: str, sheet: Mapping[str, float]) -> Device:
    share, source = PRODUCTS_OF_A_STEP, AMPERE if name.startswith("a100") else UNMEASURED
    if name.startswith(("h", "gh", "b200")):
        share, source = PRODUCTS_ON_HOPPER, HOPPER
    return Device(
        name=name, kind="cuda", memory_bytes=int(sheet["gib"]) * GIB,
        bf16_flops=sheet["bf16"] * TERA, fp32_flops=sheet["fp32"] * TERA,
        bandwidth_bytes=sheet["bandwidth"] * GIGA, link_bytes=sheet["link"] * GIGA,
        network_bytes=sheet.get("network", 50) * GIGA, product_share=share,
        launch_seconds=LAUNCH_SECONDS, source=source,
    )  # fmt: skip


_DATA = json.loads(read_text(Path(__file__).with_name("accelerators.json"), 2**20))
ACCELERATORS = {name: _card(name, sheet) for name, sheet in _DATA["sheets"].items()}
_MAKERS = re.compile(r"\b(nvidia|tesla|geforce)\b")


def accelerator_called(title: str) -> Device | None:
    """The accelerator with this driver title or common name: ``NVIDIA A100-SXM4-80GB``."""
    words = _MAKERS.sub(" ", title.lower()).replace("-", " ").split()
    if (name := "-".join(words)) in ACCELERATORS:
        return ACCELERATORS[name]
    known = (name for name, form in _DATA["titles"].items() if re.fullmatch(form, " ".join(words)))
    return next((ACCELERATORS[name] for name in known), None)


NAMES = (*ACCELERATORS, "cpu")
UNITS = {
    "bf16": ("bf16_flops", TERA), "fp32": ("fp32_flops", TERA), "memory": ("memory_bytes", GIB),
    "bandwidth": ("bandwidth_bytes", GIGA), "link": ("link_bytes", GIGA),
    "network": ("network_bytes", GIGA), "share": ("product_share", 1),
}  # fmt: skip
"""Figures that a user may give, and their units: TFLOP/s, GiB, GB/s, and the share of products."""
MOST = 1e6
"""Upper limit for a given figure, in its unit."""
HOW_TO_GIVE = '--device "NAME,bf16=312,fp32=19.5,memory=79,bandwidth=2039" (TFLOP/s, GiB, GB/s)'


def device_named(name: str, processes: int = 1) -> Device:
    """Find a device: a known name, perhaps with figures (``HOW_TO_GIVE``).

    ``cpu`` is this machine's CPU, shared by ``processes``.

    Raises:
        UsageError: if the name is unknown, or a figure is wrong or missing.
    """
    title, *figures = (part.strip() for part in name.split(","))
    if title.lower() == "cpu" and not figures:
        return this_cpu(processes)
    known = accelerator_called(title)
    if figures:
        return _with_figures(title, known, figures)
    if known:
        return known
    near = nearest(title, NAMES)
    hint = f"--device {near}, several by --world 8; " if near else ""
    raise UsageError(
        f"unknown device {title}",
        help=f"{hint}known are {', '.join(NAMES)}; give the figures of another: {HOW_TO_GIVE}",
    )


def _with_figures(title: str, known: Device | None, figures: Sequence[str]) -> Device:
    numbers: dict[str, Any] = {}
    for figure in figures:
        key, _, text = figure.partition("=")
        if key.strip() not in UNITS:
            raise UsageError(
                f"a device has no figure {key.strip()!r}", help=f"{', '.join(UNITS)}: {HOW_TO_GIVE}"
            )
        field, unit = UNITS[key.strip()]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < MOST:
            raise UsageError(f"{figure!r} is no figure of a device", help=HOW_TO_GIVE)
        numbers[field] = int(value * unit) if field == "memory_bytes" else value * unit
    if known:
        return replace(known, **numbers)
    needed = {"memory_bytes": "memory", "bandwidth_bytes": "bandwidth"}
    missing = [key for field, key in needed.items() if field not in numbers]
    if not {"bf16_flops", "fp32_flops"} & numbers.keys():
        missing.append("bf16 or fp32")
    if missing:
        raise UsageError(
            f"of the device {title}, which is not known, {' and '.join(missing)} must be given",
            help=HOW_TO_GIVE,
        )
    return Device(
        name=title, kind="cuda", launch_seconds=LAUNCH_SECONDS,
        source="as on an A100; the figures of the device were given",
        **{"product_share": PRODUCTS_OF_A_STEP, **numbers},
    )  # fmt: skip


CPU_SHARE, CPU_WITHIN = 0.8, 2.0
"""Share of a CPU's peak that products reach, and the factor within which its times are expected.

Relative to rates measured on an EPYC, times of 111 specs are 1.0 to 1.4 times as long in fp32, with
AVX2 and with AVX-512, and 0.5 to 1.4 times in bf16; other processors took 1.0 to 1.2 times as long
as by those rates."""


def this_cpu(processes: int = 1) -> Device:
    """One process's share of this CPU: cores, memory, fast bf16 or not.

    ``OMP_NUM_THREADS`` limits the cores, as it does for torch.
    """
    cores, most = available_cores() / processes, os.environ.get("OMP_NUM_THREADS", "")
    if most.isdecimal() and int(most):
        cores = min(cores, int(most))
    core, count = core_here(), f"{cores:.2g} core{'s' * (cores != 1)}"
    ghz, flops = core.hertz / GIGA, f"{core.fp32_flops / core.hertz:.0f}"
    if core.bf16_flops:
        flops += f" (bf16: {core.bf16_flops / core.hertz:.0f})"
    cpu = Device(
        name="cpu", kind="cpu",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // processes,
        bf16_flops=cores * core.bf16_flops, fp32_flops=cores * core.fp32_flops,
        loops_bf16=not core.bf16_flops and "avx512f" not in cpu_flags(),
        bandwidth_bytes=cores * core.bandwidth_bytes, product_share=CPU_SHARE,
        launch_seconds=9e-6,  # to start an operation, with what Python does around it
        cores=cores, time_within=CPU_WITHIN,
        source=f"from {count} of {ghz:.1f} GHz, {flops} FLOPs a cycle: within a factor of "
        f"{CPU_WITHIN:g}; bertc bench --calibrate measures it",
    )  # fmt: skip
    if (calibration := calibration_here()) is None:
        return cpu
    rates = calibration.at(cpu.cores)  # its peak is that of the fastest measured product
    fp32, bf16 = (max(p.rate for p in rates.products[name]) for name in ("fp32", "bf16"))
    source = f"rates of {count} that were measured here"
    return replace(
        cpu, bf16_flops=bf16 if cpu.bf16_flops else 0.0, fp32_flops=fp32, product_share=1.0,
        rates=rates, time_within=None,
        source=f"{source} (bertc bench --calibrate, torch {calibration.torch})",
    )  # fmt: skip
