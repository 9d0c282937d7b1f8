"""Accelerators as their data sheets describe them.

Peaks are dense: where a sheet prints figures with sparsity, half of them. bf16 is with sums in
fp32, as training has them; sheets of GeForce cards print twice that for sums in fp16. Memory is
what CUDA reports as total, in whole GiB below what the sheets call GB; bandwidth is the sheet's.

Figures are those commonly quoted from the makers' data sheets and architecture papers, checked in
part against pages of others; the sheets were not opened for it (docs/estimates.md).
"""

import re
from collections.abc import Mapping

from bertc.cost.machines.device import Device

GIB = 2**30
TERA, GIGA = 1e12, 1e9
NVLINK = {"v100": 150e9, "a100": 300e9, "h100": 450e9, "b200": 900e9}
PORTS = {"v100": 6.25e9, "a100": 25e9}
"""Bytes a second each way to other machines, per device; of others 50e9.

InfiniBand: four EDR ports for 8 V100 (DGX-1), an HDR port for each A100, NDR from Hopper on."""
PCIE_3, PCIE_4, PCIE_5 = 16e9, 32e9, 64e9
BRIDGE = 300e9
"""NVLink bridge between two or three H100 PCIe or NVL cards, bytes per second each way."""

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


def _card(name: str, gib: int, bf16: float, fp32: float, bandwidth: float, link: float) -> Device:
    """A device for CUDA or ROCm; rates in TFLOP/s, bandwidth and link in GB/s, memory in GiB."""
    share, source = PRODUCTS_OF_A_STEP, AMPERE if name.startswith("a100") else UNMEASURED
    if name.startswith(("h", "gh", "b200")):
        share, source = PRODUCTS_ON_HOPPER, HOPPER
    return Device(
        name=name, kind="cuda", memory_bytes=gib * GIB, bf16_flops=bf16 * TERA,
        fp32_flops=fp32 * TERA, bandwidth_bytes=bandwidth * GIGA, link_bytes=link,
        network_bytes=PORTS.get(name[:4], 50e9), product_share=share, launch_seconds=LAUNCH_SECONDS,
        source=source,
    )  # fmt: skip


ACCELERATORS: Mapping[str, Device] = {
    device.name: device
    for device in (
        _card("b200", 178, 2250, 75, 8000, NVLINK["b200"]),
        _card("gh200", 94, 989.4, 66.9, 4000, NVLINK["h100"]),
        _card("h200", 139, 989.4, 66.9, 4800, NVLINK["h100"]),
        _card("h100", 79, 989.4, 66.9, 3350, NVLINK["h100"]),
        _card("h100-pcie", 79, 756, 51.2, 2000, PCIE_5),
        _card("h100-nvl", 93, 835, 60, 3900, BRIDGE),
        _card("a100", 79, 312, 19.5, 2039, NVLINK["a100"]),
        _card("a100-pcie", 79, 312, 19.5, 1935, PCIE_4),
        _card("a100-40", 39, 312, 19.5, 1555, NVLINK["a100"]),
        _card("l40s", 44, 362.05, 91.6, 864, PCIE_4),
        _card("l4", 22, 121, 30.3, 300, PCIE_4),
        _card("a10", 22, 125, 31.2, 600, PCIE_4),
        _card("a6000", 47, 154.8, 38.7, 768, PCIE_4),
        _card("rtx3090", 23, 71, 35.6, 936, PCIE_4),
        _card("rtx4090", 23, 165.2, 82.6, 1008, PCIE_4),
        _card("rtx5090", 31, 209.5, 104.8, 1792, PCIE_5),
        _card("v100", 31, 0, 15.7, 900, NVLINK["v100"]),
        _card("t4", 14, 0, 8.1, 320, PCIE_3),
        _card("mi300x", 191, 1307.4, 163.4, 5300, 7 * 64e9),  # a link to each of the other seven
    )
}

_TITLES = {
    "gh200": "gh200 480gb",
    "h100": "h100 (80gb hbm3|sxm5?( 80gb)?)",
    "a100": "a100 (sxm4? )?80(gb)?|a100 sxm4?",
    "a100-pcie": "a100 80gb pcie",
    "a100-40": "a100 (sxm4|pcie) 40gb|a100 40(gb)?",
    "a6000": "(rtx )?a6000",
    "rtx3090": "(rtx )?3090",
    "rtx4090": "(rtx )?4090",
    "rtx5090": "(rtx )?5090",
    "v100": "v100 (sxm2|sxm3) (16|32)gb",
    "mi300x": "amd instinct mi300x( oam)?",
}
"""Regular expressions of driver titles other than the name, without maker and product range.

A longer title is another device: laptop chips and partitions of a GPU carry the names of large
ones."""
_MAKERS = re.compile(r"\b(nvidia|tesla|geforce)\b")


def accelerator_called(title: str) -> Device | None:
    """The accelerator with this driver title or common name: ``NVIDIA A100-SXM4-80GB``."""
    words = _MAKERS.sub(" ", title.lower()).replace("-", " ").split()
    if (name := "-".join(words)) in ACCELERATORS:
        return ACCELERATORS[name]
    known = (name for name, form in _TITLES.items() if re.fullmatch(form, " ".join(words)))
    return next((ACCELERATORS[name] for name in known), None)
