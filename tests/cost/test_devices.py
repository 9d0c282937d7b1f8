"""Devices: their names, their figures, those that are given, and what a step takes on them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import UsageError
from bertc.cost import device_named, estimate
from bertc.cost.machines import calibration
from bertc.cost.machines.accelerators import ACCELERATORS, GIB, LAUNCH_SECONDS, accelerator_called
from bertc.cost.machines.devices import this_cpu

RESULTS = Path(__file__).parents[1] / "bench/results"
MINI = "layers=4 hidden=256 heads=4 vocab=30522 seq=128 batch=512"
LARGE = "layers=24 hidden=1024 heads=16 vocab=30522 seq=128 batch=96"
DECODER = "layers=24 hidden=1536 heads=12 vocab=50368 seq=512 batch=128 objective=clm dropout=0"


TITLES = {
    "NVIDIA B200": "b200", "NVIDIA GH200 480GB": "gh200", "NVIDIA H200": "h200",
    "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA A100-SXM4-80GB": "a100", "NVIDIA A100 80GB PCIe": "a100-pcie",
    "NVIDIA A100-SXM4-40GB": "a100-40", "NVIDIA A100-PCIE-40GB": "a100-40",
    "NVIDIA L40S": "l40s", "NVIDIA L4": "l4", "NVIDIA A10": "a10", "NVIDIA RTX A6000": "a6000",
    "NVIDIA GeForce RTX 3090": "rtx3090", "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA GeForce RTX 5090": "rtx5090", "Tesla V100-SXM2-32GB": "v100", "Tesla T4": "t4",
    "AMD Instinct MI300X": "mi300x", "rtx 4090": "rtx4090", "A100-80GB": "a100",
}  # fmt: skip
OTHERS = (
    "NVIDIA A10G", "NVIDIA H20", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "Apple M1",
    "NVIDIA RTX 6000 Ada Generation",
)  # fmt: skip


@pytest.mark.parametrize("title", [*TITLES, *OTHERS])
def test_accelerators_by_what_their_driver_calls_them(title: str) -> None:
    found = accelerator_called(title)
    assert (found.name if found else None) == TITLES.get(title)


def test_peaks_are_dense_and_in_their_units() -> None:
    for device in ACCELERATORS.values():
        if device.kind == "cuda":
            # Tensor units of all with bf16 are 2 to 30 times as fast as the others.
            assert not device.bf16_flops or 1.9 < device.bf16_flops / device.fp32_flops < 31
            assert 14 * GIB <= device.memory_bytes < 192 * GIB
        assert 60e9 < device.bandwidth_bytes < 10e12, device.name
    assert ACCELERATORS["h100-pcie"].bf16_flops < ACCELERATORS["h100"].bf16_flops


def test_shares_are_those_that_give_the_published_figures() -> None:
    assert estimate(resolve(LARGE), "a100").time.assumed_mfu == pytest.approx(0.447, abs=0.005)
    assert estimate(resolve(DECODER), "h100").time.assumed_mfu == pytest.approx(0.404, rel=0.1)


@pytest.mark.parametrize("name", ["bert-base", "bert-mini"])
def test_steps_take_on_an_h100_what_was_measured_there(name: str) -> None:
    """Both results are of one machine (docs/measured.md)."""
    measured = json.loads((RESULTS / f"step-{name}-h100.json").read_text())
    step, (contender, *_) = measured["step"], measured["contenders"]
    settings = [f"{key}={step[key]}" for key in ("batch", "microbatch", "seq", "precision")]
    settings += [f"positions=learned({step['seq']})", "device=cuda", "compile=on"]
    found = estimate(
        resolve(name, [*settings, "objective=mlm", "format=blocks", "steps=9"]), "h100"
    )
    taken = contender["seconds"]["median"]
    assert found.time.seconds_per_step == pytest.approx(taken, rel=0.03)
    assert found.memory.peak_bytes == pytest.approx(contender["peak_bytes"], rel=0.015)


def test_launches_bound_a_tiny_model() -> None:
    tiny = "layers=2 hidden=64 heads=2 vocab=1000 seq=32 batch=8"
    found = estimate(resolve(tiny), "h200").time
    # Counts of what torch dispatches: 97 a layer, 143 around them, 120 for masking and the update.
    assert found.seconds_per_step == pytest.approx((2 * 97 + 143 + 120) * LAUNCH_SECONDS)


def test_an_unknown_device_is_said_to_be_unknown() -> None:
    with pytest.raises(UsageError, match="unknown device h20$") as error:
        device_named("h20")
    assert "--device h200" in error.value.help
    assert "memory=" in error.value.help


def test_several_devices_are_printed_with_their_number() -> None:
    with pytest.raises(UsageError) as error:
        device_named("h100x8")
    assert error.value.help.startswith("--device h100, several by --world 8; ")


def test_figures_of_any_device_can_be_given() -> None:
    found = device_named("NVIDIA A40, bf16=149.7, memory=44, bandwidth=696")
    assert (found.name, found.memory_bytes) == ("NVIDIA A40", 44 * GIB)
    assert (found.bf16_flops, found.bandwidth_bytes) == (149.7e12, 696e9)
    half = device_named("h200,memory=70,share=0.6")
    assert half == replace(device_named("h200"), memory_bytes=70 * GIB, product_share=0.6)
    assert estimate(resolve(MINI), "NVIDIA A40,bf16=149.7,memory=44,bandwidth=696").time


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine,bf16=10", "of the device mine, which is not known, memory and bandwidth must be"),
        ("mine,memory=10,bandwidth=5", "bf16 or fp32 must be given"),
        ("h200,tflops=10", "a device has no figure 'tflops'"),
        ("h200,memory=much", "'memory=much' is no figure of a device"),
        ("h200,memory=-1", "'memory=-1' is no figure of a device"),
        ("h200,memory", "'memory' is no figure of a device"),
    ],
)
def test_wrong_figures_are_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        device_named(text)
    assert "bandwidth=2039" in error.value.help


VECTORS = "flags : fma avx2 avx512f avx512_bf16 amx_tile amx_bf16"


@pytest.mark.parametrize(
    ("info", "highest", "limit", "clock", "fp32", "bf16", "loops_bf16"),
    [
        (f"cpu MHz : 2600.0\n{VECTORS}", "", "", 2.6e9, 32, 128, False),
        ("cpu MHz : 2600.0\nflags : avx2 avx512f avx512_bf16", "", "", 2.6e9, 32, 64, False),
        ("cpu MHz : 800.0\nflags : avx2", "4500000\n", "", 4.5e9, 32, 0, True),
        ("cpu MHz : 2000.0\nflags : sse4_2", "", "", 2.0e9, 16, 0, True),
        ("Features : asimd bf16", "nonsense", "", 2.5e9, 16, 32, False),
        ("", "", "", 2.5e9, 16, 0, True),
        (VECTORS, "", "AVX512_CORE", 2.5e9, 32, 0, False),
        (VECTORS, "", "AVX2", 2.5e9, 32, 0, True),
        (VECTORS, "", "sse41", 2.5e9, 32, 0, True),
    ],
)
def test_a_core_has_the_rates_of_its_clock_and_of_the_vectors_that_it_may_use(
    info: str, highest: str, limit: str, clock: float, fp32: int, bf16: int, loops_bf16: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, text in (("CPU_INFO", info), ("CLOCK", highest)):
        (tmp_path / name).write_text(text + "\n")
        monkeypatch.setattr(calibration, name, tmp_path / name)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert calibration.core_here()[:3] == (clock, fp32 * clock, bf16 * clock)
    here = this_cpu()
    assert (here.bf16_flops > 0, here.loops_bf16) == (bf16 > 0, loops_bf16)
