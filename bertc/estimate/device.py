"""One device as figures: of a data sheet, or measured and kept in a file."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bertc.diagnostics import DataError, UsageError
from bertc.ir.base import DeviceKind
from bertc.storage.json_file import read_json

MOVED_PER_KEPT_BYTE = 5
"""Bytes that memory moves for each that forward keeps: it is written, read by what comes next, read
again by backward, and its gradient is written and read."""
MOVED_PER_WEIGHT = 24
"""Bytes for a weight that a micro-batch applies (read, cast, used twice, its gradient cast and
added: 20) or that AdamW moves (seven fp32 numbers: 28)."""
BANDWIDTH_SHARE = 0.8
"""Of what a memory promises, what kernels that only move are assumed to get."""
MAX_FILE_BYTES = 2**20

Rate = Annotated[float, Field(ge=0, lt=1e19, allow_inf_nan=False)]


class Device(BaseModel):
    """One accelerator, or all cores of a CPU; its JSON is a device file (docs/estimates.md).

    Rates are FLOP/s and bytes/s. ``bf16_flops`` is 0 where bf16 is not fast, ``fp16_flops`` what
    units promise that know fp16 alone, which bertc does not use. ``fp32_flops`` 0: not known.
    ``product_share`` is what products get of the peak, and ``source`` where that comes from.

    Beside products a step moves bytes at ``bandwidth_bytes``. Where that is 0 it was measured:
    ``kept_seconds`` for a byte that forward keeps, ``weight_seconds`` for a weight that is applied
    or moved. The host takes ``launch_seconds`` for a kernel. ``link_bytes`` is what a link to the
    other devices of a machine promises, each way: NVLink, PCIe, or the main memory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format_version: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: DeviceKind
    memory_bytes: Annotated[int, Field(gt=0, lt=2**60)]
    bf16_flops: Rate = 0.0
    fp16_flops: Rate = 0.0
    fp32_flops: Rate = 0.0
    bandwidth_bytes: Rate = 0.0
    link_bytes: Annotated[Rate, Field(gt=0)] = 10e9
    product_share: Annotated[float, Field(gt=0, le=1)]
    kept_seconds: Rate = 0.0
    weight_seconds: Rate = 0.0
    launch_seconds: Rate = 0.0
    source: str

    def precision(self, asked: Literal["auto", "fp32", "bf16"]) -> Literal["fp32", "bf16"]:
        """The arithmetic of a run; auto is bf16 where that is fast."""
        if asked == "auto":
            return "bf16" if self.bf16_flops else "fp32"
        return asked

    def peak_flops(self, precision: Literal["fp32", "bf16"]) -> float:
        """FLOP/s; bf16 on a device without it runs as fp32.

        Raises:
            UsageError: if nobody said.
        """
        peak = self.bf16_flops or self.fp32_flops if precision == "bf16" else self.fp32_flops
        if not peak:
            raise UsageError(
                f"how fast {self.name} is in {precision} is not known",
                help=f'--device "{self.name},bf16=...,fp32=..." with its TFLOP/s',
            )
        return peak

    def moving_seconds(self, kept_bytes: float, weights: float) -> float:
        """Seconds beside products: for bytes kept for backward, for weights applied or moved."""
        if not self.bandwidth_bytes:
            return kept_bytes * self.kept_seconds + weights * self.weight_seconds
        moved = MOVED_PER_KEPT_BYTE * kept_bytes + MOVED_PER_WEIGHT * weights
        return moved / (BANDWIDTH_SHARE * self.bandwidth_bytes)

    def as_json(self) -> str:
        """The content of a device file."""
        return self.model_dump_json(by_alias=True, indent=1)


def device_in(path: Path) -> Device:
    """The device that a file describes.

    Raises:
        MissingInputError: if it is not there.
        DataError: if it is no device file.
    """
    found = read_json(path, MAX_FILE_BYTES)
    try:
        return Device.model_validate(found)
    except ValidationError as error:
        wrong = "; ".join(_complaint(dict(each)) for each in error.errors()[:3])
        raise DataError(
            f"{path} is no device file: {wrong}", help="docs/estimates.md says what is in one"
        ) from None


def _complaint(error: dict[str, Any]) -> str:
    place = ".".join(map(str, error["loc"]))
    told = {"missing": "is missing", "extra_forbidden": "is not known there"}
    return f"{place} {told.get(error['type'], 'cannot be that')}"
