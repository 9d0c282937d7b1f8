"""Measured rates of this machine, kept in the cache; ``bertc calibrate`` writes them."""

import hashlib
import os
import platform
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bertc.base.diagnostics import BertcError
from bertc.base.storage.json_file import read_json
from bertc.base.storage.paths import cache_folder, is_file
from bertc.cost.machines.processor import cpu_info
from bertc.cost.machines.rates import Rates

MAX_FILE_BYTES = 2**20
LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Environment variables that restrict torch's libraries to older instructions."""


class Calibration(BaseModel):
    """Rates by number of threads per process; dumped as the JSON file in the cache."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format_version: Annotated[Literal[2], Field(alias="schema")] = 2
    torch: str
    threads: Annotated[dict[int, Rates], Field(min_length=1)]

    def at(self, cores: float) -> Rates:
        """Rates for this many cores: as measured, or scaled from the nearest measured number."""
        nearest = min(self.threads, key=lambda threads: abs(threads - cores))
        measured = self.threads[nearest]
        return measured if nearest == cores else measured.times(cores / nearest)

    def as_json(self) -> str:
        """The file's content."""
        return self.model_dump_json(by_alias=True, indent=1)


def calibration_path() -> Path:
    """The calibration file of this machine; each processor model has its own."""
    model = cpu_info("model name") or platform.processor()
    limits = (os.environ.get(name, "").lower() for name in LIMITS)
    description = "\n".join((platform.machine(), model, *limits))
    return (
        cache_folder()
        / "calibration"
        / f"{hashlib.sha256(description.encode()).hexdigest()[:16]}.json"
    )


def calibration_here() -> Calibration | None:
    """The rates of this machine; None if not measured or the file is damaged."""
    path = calibration_path()
    if not is_file(path):
        return None
    try:
        return Calibration.model_validate(read_json(path, MAX_FILE_BYTES))
    except (BertcError, ValidationError):
        return None
