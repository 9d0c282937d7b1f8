"""Memory of a step on the device, beside what ``bertc estimate`` says of it."""

import gc
from collections.abc import Iterator
from functools import partial

import torch

from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.machine.machine import make_plan
from tests.bench.estimates import allocated_bytes
from tests.bench.gpu.setting import TOY, Results, Setting

BASE = "layers=12 hidden=768 vocab=30522 seq=512"
MINI = "layers=4 hidden=256 vocab=30522 seq=128"
PACKED = "format=sentence-pair pack=true objective=mlm+nsp"
SPECS = (
    *(
        f"{BASE} batch=64 precision=bf16 {more}".strip()
        for more in (
            "", "dropout=0", "microbatch=16", "recompute=on", "optimizer=lamb", PACKED,
            f"{PACKED} dropout=0", "E=128 generator=0.25 objective=rtd*50+mlm", "share=all E=128",
        )
    ),
    f"{BASE} batch=16 precision=fp32",
    f"{BASE} batch=32 precision=bf16 objective=clm",
    f"{BASE} batch=32 precision=bf16 objective=plm attention=relative(untie=true)",
    f"{MINI} batch=512 precision=bf16",
    f"{MINI} batch=512 precision=fp32 optimizer=lamb",
    "layers=24 hidden=1024 vocab=30522 seq=512 batch=32 precision=bf16",
    "layers=12 hidden=768 vocab=250k seq=512 batch=32 precision=bf16",
)  # fmt: skip
TINY = (f"{TOY} precision=fp32", f"{TOY} precision=bf16 objective=clm")
STEPS = 3


def run(setting: Setting, results: Results) -> None:
    """Every configuration, eager and then compiled, and the largest micro-batch of a plan."""
    for compiled in (False, True) if setting.kind == "cuda" else (False,):
        for spec in TINY if setting.tiny else SPECS:
            name = f"{spec}{', compiled' * compiled}"
            take = partial(compare_with_the_estimate, setting, results, name, spec, compiled)
            results.measure(name, take)
    if setting.kind == "cuda":
        largest_of_a_plan(setting, results)


def compare_with_the_estimate(
    setting: Setting, results: Results, name: str, spec: str, compiled: bool
) -> None:
    """The most bytes that torch gave out in some steps."""
    resolved = setting.resolved(spec, f"compile={'on' if compiled else 'off'}")
    peak = estimate(resolved, "cpu" if setting.kind == "cpu" else "h200").memory.peak_bytes
    found = dict(measured(setting, resolved, compiled))
    results.put(name, estimated=peak, **found, off=peak / found["allocated"] - 1)


def measured(setting: Setting, resolved: Resolved, compiled: bool) -> Iterator[tuple[str, int]]:
    """What the allocator gave out, and on a GPU what it holds for that."""
    if setting.kind == "cpu":
        yield "allocated", allocated_bytes(resolved)
        return
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(setting.device)
    before = torch.cuda.memory_allocated(setting.device)
    torch.compiler.reset()
    with setting.kernels(resolved):
        take = setting.steps(resolved, compiled)
        for number in range(STEPS):
            take(number)
    yield "allocated", torch.cuda.max_memory_allocated(setting.device) - before
    yield "reserved", torch.cuda.max_memory_reserved(setting.device)


def largest_of_a_plan(setting: Setting, results: Results) -> None:
    """Whether as many examples fit at once as a plan for this machine says."""
    resolved = setting.resolved(f"{BASE} batch=2048 precision=bf16 compile=off")
    asked = resolved.stages[0].model_copy(update={"microbatch": 0})
    planned = make_plan(resolved.model_copy(update={"stages": (asked,)}))
    rows = planned.microbatches[0]
    fitting = setting.resolved(f"{BASE} batch={rows} precision=bf16 compile=off")
    try:
        found = dict(measured(setting, fitting, compiled=False))
    except torch.OutOfMemoryError:
        results.check("the largest micro-batch of a plan", False, rows=rows)
        return
    total = torch.cuda.get_device_properties(setting.device).total_memory
    share = found["allocated"] / total
    results.check("the largest micro-batch of a plan", True, rows=rows, share=share)
