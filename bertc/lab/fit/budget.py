"""Budgets of parameters, FLOPs, time or memory, as written on a command line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bertc import UsageError
from bertc.lab_api import units

UNITS: Mapping[str, Mapping[str, float]] = {
    "params": {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9},
    "flops": {"": 1, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86_400, "days": 86_400},
    "memory": {"MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9},
}
EXAMPLES = {"params": "14M", "flops": "1e18", "time": "8h", "memory": "16GiB"}
TEXTS = {
    "params": units.count_text, "flops": units.flops_text, "time": units.duration_text,
    "memory": units.bytes_text,
}  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """The most that one figure may be, in parameters, FLOPs, seconds or bytes."""

    kind: str
    most: float

    def text(self, value: float) -> str:
        """A figure of this kind with its unit."""
        return TEXTS[self.kind](value)


def budget(kind: str, text: str) -> Budget:
    """Read ``14M``, ``1e18``, ``8h`` or ``16GiB``."""
    units = UNITS[kind]
    match = re.fullmatch(r"([\d.]+(?:e[+-]?\d+)?)\s*(\D*)", text.strip().replace(",", ""))
    unit = match[2].removesuffix("FLOP") if match and kind == "flops" else match and match[2]
    try:
        most = float(match[1]) * units[unit or ""] if match else 0.0
    except (KeyError, ValueError):
        most = 0.0
    if not 0 < most < float("inf"):
        known = ", ".join(filter(None, units))
        raise UsageError(
            f"--{kind} {text[:60]}: not a number with a unit ({known})",
            help=f"--{kind} {EXAMPLES[kind]}",
        )
    return Budget(kind, most)
