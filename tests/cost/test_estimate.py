"""The estimate as JSON and as tables, its devices and times."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bertc.api import points, resolve
from bertc.cost import as_json, as_table, device_named, estimate, where_table
from bertc.cost.machines import devices
from bertc.cost.machines.devices import NAMES
from bertc.cost.units import range_text

FLOPS = {
    "convention", "forward_per_example", "train_per_example", "train_per_step", "train_total",
}  # fmt: skip
MEMORY = {
    "weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "peak_bytes",
    "microbatch", "largest_microbatch", "recompute",
}  # fmt: skip
PARAMETERS = {
    "encoder", "embeddings", "layers", "pooler", "heads", "total", "applied", "by_part",
}  # fmt: skip
TIME = {
    "device", "seconds_per_step", "seconds_total", "assumed_mfu", "product_share", "source",
}  # fmt: skip


def test_json_has_the_published_fields() -> None:
    resolved = resolve("bert-base")
    found = json.loads(as_json([estimate(resolved, "a100")]))
    assert set(found) == {
        "schema", "name", "fingerprint", "parameters", "flops", "memory", "time", "stages",
    }  # fmt: skip
    assert found["schema"] == 1
    assert found["fingerprint"] == resolved.fingerprint()
    assert found["time"]["device"] == "a100"
    for part in (found, *found["stages"]):
        assert set(part["parameters"]) == PARAMETERS
        assert set(part["flops"]) == FLOPS
        assert set(part["memory"]) == MEMORY
        assert set(part["time"]) == TIME
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
        activations = sum(part.activations_bytes for part in stage.where)
        assert activations == stage.memory.activations_bytes
        states = 16 * found.parameters.total
        assert sum(part.state_bytes for part in stage.where) == states
    text = where_table([found])
    assert "feed-forward" in text
    assert "stage long" in text
    assert text.endswith(found.time.basis)


def test_a_grid_is_points() -> None:
    found = json.loads(as_json([estimate(p) for p in points("L=2 H=32 V=100 E={16,32}")]))
    assert found["schema"] == 1
    assert len({point["name"] for point in found["points"]}) == 2


def test_one_estimate_shows_parts_and_stages() -> None:
    text = as_table([estimate(resolve("bert-base"))])
    for expected in ("109,482,240", "stage short", "stage long", "MFU of bert-base 35%"):
        assert expected in text


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
        assert set(part["time"]) == TIME | {"within"}
        assert part["time"]["within"] == 2
    within = range_text(found.time.seconds_total / 2, found.time.seconds_total * 2)
    assert found.time.total_text == within
    assert as_table([found]).count(within) == 1
    assert within in as_table([found, found])
    assert found.stages[0].time.step_text in where_table([found])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ([1.3e-10], "0.13 ns"), ([4.25e-7], "425 ns"), ([4.1e-6], "4.10 µs"), ([0.0352], "35.2 ms"),
        ([1.59], "1.59 s"), ([720], "12.0 min"), ([11_700], "3.25 h"), ([354_240], "4.10 days"),
        ([1.59, 6.36], "1.59 to 6.36 s"), ([720, 11_700], "12.0 min to 3.25 h"),
    ],
)  # fmt: skip
def test_a_time_keeps_its_digits_and_says_its_unit_once(seconds: list[float], text: str) -> None:
    assert range_text(*seconds) == text


@pytest.mark.parametrize("name", NAMES)
def test_every_device_gives_a_time(name: str) -> None:
    found = estimate(resolve("bert-base"), name).time
    assert found.device == name
    assert found.seconds_total > found.seconds_per_step > 0
    assert found.source


def test_a_growing_run_is_the_sum_of_its_stages() -> None:
    growing = (
        "layers=4 hidden=64 vocab=1000 seq=32 batch=16 "
        'stage "flat" { layers=1 steps=30 } stage "deep" { steps=70 }'
    )
    found, whole = (estimate(resolve(growing.replace("layers=1", f"layers={n}"))) for n in (1, 4))
    shallow = estimate(resolve(growing.replace("layers=4", "layers=1")))
    assert found.stages[0].flops == shallow.stages[0].flops
    assert found.stages[1].flops == whole.stages[1].flops
    assert found.flops.train_total == sum(stage.flops.train_total for stage in found.stages)
    assert found.parameters == whole.parameters
    assert found.stages[0].memory.weights_bytes == shallow.memory.weights_bytes


def test_an_estimate_shows_itself_as_the_table_of_the_command():
    found = estimate(resolve("layers=2 hidden=64"))
    assert str(found) == repr(found) == as_table([found])
    html = found._repr_html_()
    assert html.startswith("<table>")
    assert f">{found.parameters.total:,}</td>" in html
    assert "<script>" not in replace(found, name="<script>")._repr_html_()
