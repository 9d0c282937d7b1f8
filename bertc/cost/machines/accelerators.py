"""Accelerators as their data sheets describe them.

Peaks are dense: where a sheet prints figures with sparsity, half of them. bf16 is with sums in
fp32, as training has them; sheets of GeForce cards print twice that for sums in fp16. Memory is
what CUDA reports as total, in whole GiB below what the sheets call GB; bandwidth is the sheet's.

Figures are those commonly quoted from the makers' data sheets and architecture papers, checked in
part against pages of others; the sheets were not opened for it (docs/estimates.md).
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from bertc.base.storage.plain_file import read_text
from bertc.cost.machines.device import Device

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


_DATA = tomllib.loads(read_text(Path(__file__).with_name("accelerators.toml"), 2**20))
ACCELERATORS = {name: _card(name, sheet) for name, sheet in _DATA["sheets"].items()}
_MAKERS = re.compile(r"\b(nvidia|tesla|geforce)\b")


def accelerator_called(title: str) -> Device | None:
    """The accelerator with this driver title or common name: ``NVIDIA A100-SXM4-80GB``."""
    words = _MAKERS.sub(" ", title.lower()).replace("-", " ").split()
    if (name := "-".join(words)) in ACCELERATORS:
        return ACCELERATORS[name]
    known = (name for name, form in _DATA["titles"].items() if re.fullmatch(form, " ".join(words)))
    return next((ACCELERATORS[name] for name in known), None)
