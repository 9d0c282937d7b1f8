"""One device as figures, from a data sheet or a device file."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bertc.base.diagnostics import DataError, UsageError
from bertc.base.storage.json_file import read_json
from bertc.cost.machines.rates import Rates
from bertc.ir.base import DeviceKind

BANDWIDTH_SHARE = 0.8
"""Assumed share of nominal memory bandwidth that copying kernels reach."""
LOOPS_SLOWER = 12
"""Speed of fp32 products over bf16 ones in torch's loops: 11 to 24 as measured with AVX2."""
MAX_FILE_BYTES = 2**20
DROPPED = ("kept_seconds", "weight_seconds", "fp16_flops")

Rate = Annotated[float, Field(ge=0, lt=1e19, allow_inf_nan=False)]


class Device(BaseModel):
    """One accelerator, or all cores of a CPU; dumped as a device file (docs/estimates.md).

    Rates are dense FLOP/s and bytes/s; 0 means unknown. ``bf16_flops`` is 0 where bf16 is not fast;
    with ``loops_bf16`` torch makes its products in loops of its own, as on a CPU without AVX-512.
    ``product_share`` is the share of the peak that matmuls reach, ``source`` where that figure
    comes from.

    ``bandwidth_bytes`` is the nominal memory bandwidth, ``launch_seconds`` the host's time per
    kernel, ``link_bytes`` the nominal rate each way to the other devices of the machine: NVLink,
    PCIe or main memory. Measured ``rates`` take precedence over all of these. Times are expected
    within a factor of ``time_within``; None: no range is stated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format_version: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: DeviceKind
    memory_bytes: Annotated[int, Field(gt=0, lt=2**60)]
    bf16_flops: Rate = 0.0
    loops_bf16: bool = False
    fp32_flops: Rate = 0.0
    bandwidth_bytes: Rate = 0.0
    link_bytes: Annotated[Rate, Field(gt=0)] = 10e9
    product_share: Annotated[float, Field(gt=0, le=1)]
    launch_seconds: Rate = 0.0
    cores: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    rates: Rates | None = None
    time_within: Annotated[float, Field(ge=1, le=100)] | None = None
    source: str

    def precision(self, setting: Literal["auto", "fp32", "bf16"]) -> Literal["fp32", "bf16"]:
        """Resolve ``auto``: bf16 where it is fast, else fp32."""
        if setting == "auto":
            return "bf16" if self.bf16_flops else "fp32"
        return setting

    def peak_flops(self, precision: Literal["fp32", "bf16"]) -> float:
        """FLOP/s; bf16 on a device without it runs as fp32, or in loops.

        Raises:
            UsageError: if the rate is unknown.
        """
        slower = self.fp32_flops / (LOOPS_SLOWER if self.loops_bf16 else 1)
        peak = self.bf16_flops or slower if precision == "bf16" else self.fp32_flops
        if not peak:
            raise UsageError(
                f"how fast {self.name} is in {precision} is not known",
                help=f'--device "{self.name},bf16=...,fp32=..." with its TFLOP/s',
            )
        return peak

    @model_validator(mode="before")
    @classmethod
    def _older(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Drop unused figures of older device files."""
        return {k: v for k, v in content.items() if k not in DROPPED}

    @property
    def bandwidth(self) -> float:
        """Usable bytes per second of memory traffic."""
        if self.rates:
            return self.rates.bandwidth_bytes
        return BANDWIDTH_SHARE * self.bandwidth_bytes

    @property
    def seconds_a_start(self) -> float:
        """Host seconds per kernel."""
        return self.rates.start_seconds if self.rates else self.launch_seconds

    def as_json(self) -> str:
        """The content of a device file."""
        return self.model_dump_json(by_alias=True, indent=1, exclude_none=True)


def device_in(path: Path) -> Device:
    """Read a device file.

    Raises:
        MissingInputError: if it does not exist.
        DataError: if it is not a valid device file.
    """
    content = read_json(path, MAX_FILE_BYTES)
    try:
        return Device.model_validate(content)
    except ValidationError as error:
        wrong = "; ".join(_complaint(dict(mistake)) for mistake in error.errors()[:3])
        raise DataError(
            f"{path} is no device file: {wrong}", help="docs/estimates.md says what is in one"
        ) from None


def _complaint(error: dict[str, Any]) -> str:
    place = ".".join(map(str, error["loc"]))
    reasons = {"missing": "is missing", "extra_forbidden": "is not known there"}
    return f"{place} {reasons.get(error['type'], 'cannot be that')}"
