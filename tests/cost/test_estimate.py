"""The estimate as JSON and as tables; its devices, their figures, and what a step takes there."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.base.diagnostics import UsageError
from bertc.cost import as_json, as_table, device_named, estimate, where_table
from bertc.cost.machines import device as machine_device, devices
from bertc.cost.machines.devices import (
    ACCELERATORS,
    GIB,
    LAUNCH_SECONDS,
    NAMES,
    accelerator_called,
    this_cpu,
)
from bertc.cost.units import range_text

FIELDS = {
    "flops": "convention forward_per_example train_per_example train_per_step train_total",
    "memory": "weights_bytes gradients_bytes optimizer_bytes activations_bytes peak_bytes "
    "microbatch largest_microbatch recompute",
    "parameters": "encoder embeddings layers pooler heads total applied by_part",
    "time": "device seconds_per_step seconds_total assumed_mfu product_share source",
}


def test_json_has_the_published_fields() -> None:
    resolved = resolve("bert-base")
    found = json.loads(as_json([estimate(resolved, "a100")]))
    assert found.keys() == {"schema", "name", "fingerprint", "stages", *FIELDS}
    assert found["schema"] == 1
    assert found["fingerprint"] == resolved.fingerprint()
    assert found["time"]["device"] == "a100"
    for part in (found, *found["stages"]):
        assert {name: {*part[name]} for name in FIELDS} == {
            name: {*fields.split()} for name, fields in FIELDS.items()
        }
    assert [stage["name"] for stage in found["stages"]] == ["short", "long"]


def test_where_a_step_goes_adds_up() -> None:
    found = estimate(resolve("bert-base"), "a100")
    shown = json.loads(as_json([found], where=True))["stages"]
    for stage, plain in zip(found.stages, shown, strict=True):
        parts = " ".join(part["part"] for part in plain["where"])
        assert parts == "embeddings attention ffn head optimiser loader"
        whole = sum(part.seconds for part in stage.where)
        assert whole == pytest.approx(stage.time.seconds_per_step)
        bounds = (p.arithmetic_seconds + p.memory_seconds + p.start_seconds for p in stage.where)
        assert sum(bounds) == pytest.approx(whole)
        assert sum(part.activations_bytes for part in stage.where) == stage.memory.activations_bytes
        states = 16 * found.parameters.total
        assert sum(part.state_bytes for part in stage.where) == states
    text = where_table([found])
    assert "feed-forward" in text
    assert "stage long" in text
    assert text.endswith(found.time.basis)


def test_an_estimate_shows_itself_as_the_table_of_the_command() -> None:
    found = json.loads(as_json([estimate(p) for p in points("L=2 H=32 V=100 E={16,32}")]))
    assert found["schema"] == 1
    assert len({point["name"] for point in found["points"]}) == 2
    text = as_table([estimate(resolve("bert-base"))])
    for expected in ("109,482,240", "stage short", "stage long", "MFU of bert-base 35%"):
        assert expected in text
    found = estimate(resolve("layers=2 hidden=64"))
    assert str(found) == repr(found) == as_table([found])
    html = found._repr_html_()
    assert html.startswith("<table>")
    assert f">{found.parameters.total:,}</td>" in html
    assert "<script>" not in replace(found, name="<script>")._repr_html_()


def test_the_readme_shows_what_is_printed() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    _, _, shown = readme.partition("$ bertc estimate ")
    command, shown = shown.split("```")[0].split("\n", 1)
    *specs, option, device = shlex.split(command)
    assert option == "--device"
    printed = as_table([estimate(resolve(spec), device) for spec in specs])
    assert shown.splitlines() == printed.splitlines()[:3]


def test_memory_that_does_not_fit_and_waiting_are_reported() -> None:
    for batch, waits in ((256, True), (4096, False)):
        eight = estimate(resolve("bert-base", [f"batch={batch}"]), "h100", devices=8)
        assert ("of a step waits for its host" in as_table([eight])) == waits
        assert "Calibrated at 80%" in as_table([eight])
    large = estimate(resolve("bert-base", ["layers=100", "hidden=8192"]), "l4")
    assert "bert-base does not fit on l4, not with one example at once" in as_table([large])
    assert "does not fit" not in as_table([estimate(resolve("bert-base"), "l4")])


def test_processes_share_the_cores_and_the_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    monkeypatch.setattr(devices, "available_cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    whole, half = device_named("cpu"), device_named("cpu", 2)
    assert half.fp32_flops == pytest.approx(whole.fp32_flops / 2)
    assert half.memory_bytes == whole.memory_bytes // 2
    assert half.bandwidth == pytest.approx(whole.bandwidth / 2)
    assert device_named("cpu", 8).fp32_flops == pytest.approx(whole.fp32_flops / 8)
    one, two = (estimate(resolve("bert-mini"), "cpu", devices=n).time for n in (1, 2))
    assert 0.95 < two.seconds_per_step / one.seconds_per_step < 1.2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert device_named("cpu").fp32_flops == pytest.approx(whole.fp32_flops / 4)
    assert device_named("cpu").source.startswith("from 1 core of")
    assert whole.source.startswith("from 4 cores of")
    assert device_named("cpu", 2).fp32_flops == pytest.approx(whole.fp32_flops / 4)


def test_the_time_of_a_cpu_that_was_not_measured_is_a_range(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    found = estimate(resolve("bert-base"), "cpu")
    shown = json.loads(as_json([found]))
    for part in (shown, *shown["stages"]):
        assert set(part["time"]) == {*FIELDS["time"].split(), "within"}
        assert part["time"]["within"] == 2
    within = range_text(found.time.seconds_total / 2, found.time.seconds_total * 2)
    assert found.time.total_text == within
    assert as_table([found]).count(within) == 1
    assert within in as_table([found, found])
    assert found.stages[0].time.step_text in where_table([found])


@pytest.mark.parametrize(("seconds", "text"), [
    ([1.3e-10], "0.13 ns"), ([4.25e-7], "425 ns"), ([4.1e-6], "4.10 µs"), ([0.0352], "35.2 ms"),
    ([1.59], "1.59 s"), ([720], "12.0 min"), ([11_700], "3.25 h"), ([354_240], "4.10 days"),
    ([1.59, 6.36], "1.59 to 6.36 s"), ([720, 11_700], "12.0 min to 3.25 h"),
])  # fmt: skip
def test_a_time_keeps_its_digits_and_says_its_unit_once(seconds: list[float], text: str) -> None:
    assert range_text(*seconds) == text


@pytest.mark.parametrize("name", NAMES)
def test_every_device_gives_a_time(name: str) -> None:
    found = estimate(resolve("bert-base"), name).time
    assert found.device == name
    assert found.seconds_total > found.seconds_per_step > 0
    assert found.source


def test_a_growing_run_is_the_sum_of_its_stages() -> None:
    growing = 'layers=4 hidden=64 vocab=1000 seq=32 batch=16 stage "flat" { layers=1 steps=30 } '
    growing += 'stage "deep" { steps=70 }'
    found, whole = (estimate(resolve(growing.replace("layers=1", f"layers={n}"))) for n in (1, 4))
    shallow = estimate(resolve(growing.replace("layers=4", "layers=1")))
    assert found.stages[0].flops == shallow.stages[0].flops
    assert found.stages[1].flops == whole.stages[1].flops
    assert found.flops.train_total == sum(stage.flops.train_total for stage in found.stages)
    assert found.parameters == whole.parameters
    assert found.stages[0].memory.weights_bytes == shallow.memory.weights_bytes


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


def test_figures_of_accelerators() -> None:
    for device in ACCELERATORS.values():
        if device.kind == "cuda":
            # Tensor units of all with bf16 are 2 to 30 times as fast as the others.
            assert not device.bf16_flops or 1.9 < device.bf16_flops / device.fp32_flops < 31
            assert 14 * GIB <= device.memory_bytes < 192 * GIB
        assert 60e9 < device.bandwidth_bytes < 10e12, device.name
    assert ACCELERATORS["h100-pcie"].bf16_flops < ACCELERATORS["h100"].bf16_flops
    assert estimate(resolve(LARGE), "a100").time.assumed_mfu == pytest.approx(0.447, abs=0.005)
    assert estimate(resolve(DECODER), "h100").time.assumed_mfu == pytest.approx(0.404, rel=0.1)
    found = estimate(resolve("layers=2 hidden=64 heads=2 vocab=1000 seq=32 batch=8"), "h200").time
    # Counts of what torch dispatches: 97 a layer, 143 around them, 120 for masking and the update.
    assert found.seconds_per_step == pytest.approx((2 * 97 + 143 + 120) * LAUNCH_SECONDS)


@pytest.mark.parametrize("name", ["bert-base", "bert-mini"])
def test_steps_take_on_an_h100_what_was_measured_there(name: str) -> None:
    """Both results are of one machine (docs/measured.md)."""
    measured = json.loads((RESULTS / f"step-{name}-h100.json").read_text())
    step, (contender, *_) = measured["step"], measured["contenders"]
    settings = [f"{key}={step[key]}" for key in ("batch", "microbatch", "seq", "precision")]
    settings += [f"positions=learned({step['seq']})", "device=cuda", "compile=on"]
    settings += ["objective=mlm", "format=blocks", "steps=9"]
    found = estimate(resolve(name, settings), "h100")
    assert found.time.seconds_per_step == pytest.approx(contender["seconds"]["median"], rel=0.03)
    assert found.memory.peak_bytes == pytest.approx(contender["peak_bytes"], rel=0.015)


def test_figures_of_any_device_can_be_given() -> None:
    found = device_named("NVIDIA A40, bf16=149.7, memory=44, bandwidth=696")
    assert (found.name, found.memory_bytes) == ("NVIDIA A40", 44 * GIB)
    assert (found.bf16_flops, found.bandwidth_bytes) == (149.7e12, 696e9)
    half = device_named("h200,memory=70,share=0.6")
    assert half == replace(device_named("h200"), memory_bytes=70 * GIB, product_share=0.6)
    assert estimate(resolve(MINI), "NVIDIA A40,bf16=149.7,memory=44,bandwidth=696").time


GIVEN = "bandwidth=2039"


@pytest.mark.parametrize(("text", "message", "way"), [
    ("h20", "unknown device h20\n", "--device h200"),
    ("h20", "unknown device h20\n", "memory="),
    ("h100x8", "h100x8", "--device h100, several by --world 8; "),
    ("mine,bf16=10", "mine, which is not known, memory and bandwidth must be", GIVEN),
    ("mine,memory=10,bandwidth=5", "bf16 or fp32 must be given", GIVEN),
    ("h200,tflops=10", "a device has no figure 'tflops'", GIVEN),
    ("h200,memory=much", "'memory=much' is no figure of a device", GIVEN),
    ("h200,memory=-1", "'memory=-1' is no figure of a device", GIVEN),
    ("h200,memory", "'memory' is no figure of a device", GIVEN),
])  # fmt: skip
def test_wrong_devices_and_figures_are_named(text: str, message: str, way: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        device_named(text)
    assert way in error.value.help


VECTORS = "flags : fma avx2 avx512f avx512_bf16 amx_tile amx_bf16"


@pytest.mark.parametrize(("info", "highest", "limit", "clock", "fp32", "bf16", "loops_bf16"), [
    (f"cpu MHz : 2600.0\n{VECTORS}", "", "", 2.6e9, 32, 128, False),
    ("cpu MHz : 2600.0\nflags : avx2 avx512f avx512_bf16", "", "", 2.6e9, 32, 64, False),
    ("cpu MHz : 800.0\nflags : avx2", "4500000\n", "", 4.5e9, 32, 0, True),
    ("cpu MHz : 2000.0\nflags : sse4_2", "", "", 2.0e9, 16, 0, True),
    ("Features : asimd bf16", "nonsense", "", 2.5e9, 16, 32, False),
    ("", "", "", 2.5e9, 16, 0, True),
    (VECTORS, "", "AVX512_CORE", 2.5e9, 32, 0, False),
    (VECTORS, "", "AVX2", 2.5e9, 32, 0, True),
    (VECTORS, "", "sse41", 2.5e9, 32, 0, True),
])  # fmt: skip
def test_a_core_has_the_rates_of_its_clock_and_of_the_vectors_that_it_may_use(
    info: str, highest: str, limit: str, clock: float, fp32: int, bf16: int, loops_bf16: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, text in (("CPU_INFO", info), ("CLOCK", highest)):
        (tmp_path / name).write_text(text + "\n")
        monkeypatch.setattr(machine_device, name, tmp_path / name)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert machine_device.core_here()[:3] == (clock, fp32 * clock, bf16 * clock)
    here = this_cpu()
    assert (here.bf16_flops > 0, here.loops_bf16) == (bf16 > 0, loops_bf16)
