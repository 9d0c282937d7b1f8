"""What each decision costs or saves: a step with one of them changed, beside the step as it is.

Compiled code is kept by function, whatever it was compiled for, so each form is made, timed and let
go by itself; the step as it is comes first and last, which tells how far the machine drifted.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tests.bench.gpu.results import Results
from tests.bench.gpu.setting import TOY, Setting

BASE = "layers=12 hidden=768 vocab=30522 seq=512 batch=128 precision=bf16 objective=mlm"
MINI = "layers=4 hidden=256 vocab=30522 seq=128 batch=512 precision=bf16 objective=mlm"
WARM_STEPS, PROFILED_STEPS, LONGEST = 3, 3, 8
Step = Callable[[], object]
Within = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Form:
    """What is added to a spec, and what the step is made and taken in."""

    extra: str = "format=blocks"
    other_way: bool = False  # compiled where runs are not, or the reverse
    within: Within = nullcontext


def forms(setting: Setting) -> dict[str, Form]:
    """In the order of what one wants to know first."""
    found = {
        "as it is": Form(),
        "compiled or not": Form(other_way=True),
        "two segments": Form("format=segment-pair"),
        "without dropout": Form("format=blocks dropout=0"),
        "padded rows": Form("format=single-segment"),
        "lamb": Form("format=blocks optimizer=lamb"),
    }
    if setting.kind == "cuda":
        found |= {
            "deterministic": Form("format=blocks deterministic=yes"),
            "cuDNN's attention": Form(within=with_cudnn),
            "CUDA graphs": Form(within=with_graphs),
        }
    return found | {"as it is, again": Form()}


def run(setting: Setting, results: Results) -> None:
    """A wide network, where products count, and a narrow one, where the host does."""
    specs = {"toy": TOY} if setting.tiny else {"bert-base": BASE, "bert-mini": MINI}
    for name, form in forms(setting).items():
        for title, spec in specs.items():
            measure = partial(compare, setting, results, title, name, f"{spec} {form.extra}", form)
            results.measure(f"{title}, {name}", measure)


def compare(
    setting: Setting, results: Results, title: str, name: str, spec: str, form: Form
) -> None:
    """Time one form, and its ratio to the step as it is."""
    figures = timed(setting, spec, form)
    as_it_is = results.found.get(f"{title}, as it is", figures).get("ms", math.nan)
    results.put(f"{title}, {name}", ratio=figures["ms"] / as_it_is, **figures)


def timed(setting: Setting, spec: str, form: Form) -> dict[str, Any]:
    """Milliseconds of a step, the seconds of the first, and what a GPU did meanwhile."""
    torch.compiler.reset()
    gc.collect()
    if setting.kind == "cuda":
        torch.cuda.empty_cache()
    rounds, steps = (1, 1) if setting.tiny else (5, 6)
    with ExitStack() as stack:
        compiled = (setting.kind == "cuda") != form.other_way
        resolved = setting.resolved(spec, f"compile={'on' if compiled else 'off'}")
        stack.enter_context(setting.kernels(resolved))
        stack.enter_context(setting.compiler())
        stack.enter_context(form.within())
        started = time.perf_counter()
        take, numbers = setting.steps(resolved, compiled), count()

        def step() -> object:
            return take(next(numbers))

        step()
        setting.finish()
        first_seconds, times = time.perf_counter() - started, list[float]()
        for _ in range(0 if setting.tiny else WARM_STEPS):
            step()
        for _ in range(rounds):
            setting.finish()
            started = time.perf_counter()
            for _ in range(steps):
                step()
            setting.finish()
            times.append((time.perf_counter() - started) / steps)
        found = {"ms": 1000 * statistics.median(times), "first_seconds": first_seconds}
        return found | (busy(setting, step) if setting.kind == "cuda" else {})


def busy(setting: Setting, step: Step) -> dict[str, Any]:
    """The share of a step in which the GPU computes, and its longest kernels in ms a step."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED_STEPS):
            step()
        setting.finish()
    spans, times = list[tuple[float, float]](), dict[str, float]()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spans.append((event.time_range.start, event.time_range.end))
            name = event.name[:50]
            times[name] = times.get(name, 0.0) + spans[-1][1] - spans[-1][0]
    computing, until = 0.0, 0.0
    for start, end in sorted(spans):
        computing += max(0.0, end - max(start, until))
        until = max(until, end)
    whole = until - min(spans)[0] if spans else 1.0
    longest = sorted(times, key=lambda name: times[name], reverse=True)[:LONGEST]
    return {
        "busy": computing / whole,
        "kernels": len(spans) / PROFILED_STEPS,
        "longest_ms": {name: times[name] / 1000 / PROFILED_STEPS for name in longest},
    }


@contextmanager
def with_cudnn() -> Iterator[None]:
    """cuDNN's attention where torch would take it; its dropout is not what was asked for."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def with_graphs() -> AbstractContextManager[object]:
    """Launches of compiled parts are replayed."""
    from torch._inductor import config

    patched: AbstractContextManager[object] = config.patch({"triton.cudagraphs": True})
    return patched
