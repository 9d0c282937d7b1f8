"""The training step beside transformers, a loop written by hand, and the largest product."""

import time
from dataclasses import replace
from functools import partial

import torch

from bertc.cost import Device, estimate
from bertc.ir.program.resolved import Resolved
from bertc.lab.bench.measure import take_turns
from bertc.lab.bench.run import bench
from bertc.machine.machine import detect, finish, measure_device
from tests.bench.gpu.setting import Results, Setting
from tests.bench.minimal import contenders

SPECS = {
    "bert-base": ("bert-base", 128, 512),
    "bert-mini": ("bert-mini", 512, 128),
    "bert-large": ("bert-large", 64, 512),
}
TINY = {"toy": ("layers=2 hidden=32 heads=2 vocab=200", 4, 16)}
GOALS = {"bert-base": 0.45, "bert-large": 0.50}
"""MFU that is aimed at."""
LAUNCHES = 200


def run(setting: Setting, results: Results) -> None:
    """Peaks first, then a spec after the other; the device is put down as soon as it can be."""
    device = peaks(setting, results)
    specs = TINY if setting.tiny else SPECS
    programs = {name: timed_spec(setting, *spec) for name, spec in specs.items()}
    takes = ("step", time_transformers), ("beside a loop by hand", compare_with_a_loop)
    for title, take in takes:
        for name, resolved in programs.items():
            measure = partial(take, setting, results, name, resolved)
            results.measure(f"{name}, {title}", measure)
            put_device(results, device, programs)


def put_device(results: Results, device: Device, programs: dict[str, Resolved]) -> None:
    """The device for ``bertc estimate``, with the share that makes a step what was measured."""
    for name, resolved in programs.items():
        if ms := results.found.get(f"{name}, step", {}).get("ms"):
            share = fitted_share(device, resolved, ms / 1000)
            figures = (
                f"bf16={device.bf16_flops / 1e12:.4g},fp32={device.fp32_flops / 1e12:.4g},"
                f"memory={device.memory_bytes / 2**30:.4g},share={share:.4f},"
                f"bandwidth={device.bandwidth_bytes / 1e9:.4g}"
            )
            results.put("estimates", device=f"--device {device.name!r},{figures}")
            return


def fitted_share(device: Device, resolved: Resolved, seconds: float) -> float:
    """The share of products that makes the estimate of this step what was measured."""
    low, high = 0.01, 1.0
    for _ in range(20):
        share = (low + high) / 2
        predicted = estimate(resolved, replace(device, product_share=share)).time.seconds_per_step
        low, high = (share, high) if predicted > seconds else (low, share)
    return (low + high) / 2


def timed_spec(setting: Setting, spec: str, batch: int, seq: int) -> Resolved:
    """Masked tokens of full rows, the whole batch at once."""
    compiled = "auto" if setting.kind == "cuda" else "off"
    precision = "fp32" if setting.tiny else "bf16"
    return setting.resolved(
        spec, f"batch={batch}", f"seq={seq}", "objective=mlm", "format=blocks", "steps=1000",
        f"positions=learned({seq})", f"compile={compiled}", f"precision={precision}",
    )  # fmt: skip


def peaks(setting: Setting, results: Results) -> Device:
    """Large products, copies, and how long the host takes for a kernel."""
    device = measure_device(detect(setting.kind))
    number, times = torch.zeros(1, device=setting.device), list[float]()
    for _ in range(5):
        finish(setting.device)
        started = time.perf_counter()
        for _ in range(LAUNCHES):
            number.add_(1)
        times.append((time.perf_counter() - started) / LAUNCHES)
    results.put(
        "peaks",
        bf16_flops=device.bf16_flops, fp32_flops=device.fp32_flops,
        copied_bytes=device.bandwidth_bytes, launch_seconds=min(times),
    )  # fmt: skip
    return device


def time_transformers(setting: Setting, results: Results, name: str, resolved: Resolved) -> None:
    """As ``bertc bench --against transformers --compile``; its report is kept whole."""
    compiled, rounds = setting.kind == "cuda", 1 if setting.tiny else 5
    report = bench(resolved, against="transformers", rounds=rounds, compiled=compiled)
    (results.folder / f"step-{name}.json").write_text(report.as_json() + "\n")
    fields = report.fields()
    own, *others = fields["contenders"]
    results.put(
        f"{name}, step", ms=1000 * own["seconds"]["median"], mfu=own["mfu"], goal=GOALS.get(name),
        tokens_per_second=own["tokens_per_second"], share_of_product=own["matmul_share"],
        first_step_seconds=own["first_step_seconds"], recompiles=own["recompiles"],
        allocated=own["peak_bytes"], estimated=fields["estimate"]["peak_bytes"],
        estimated_ms=1000 * fields["estimate"]["seconds_per_step"],
        ratios={other["name"].replace(" ", "-"): other["ratio"] for other in others},
    )  # fmt: skip


def compare_with_a_loop(setting: Setting, results: Results, name: str, resolved: Resolved) -> None:
    """A loop for this one model with every trick: what generality costs."""
    make = partial(contenders, resolved, setting.kind, setting.kind == "cuda")
    own, hand = take_turns(make, setting.device, 1 if setting.tiny else 5, lambda said: None)
    results.put(
        f"{name}, beside a loop by hand",
        ms=1000 * own.median, by_hand_ms=1000 * hand.median, ratio=own.median / hand.median,
    )  # fmt: skip
