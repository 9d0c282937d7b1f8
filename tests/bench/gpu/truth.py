"""Whether what runs on the device is right. Where one of these fails, no time is worth taking.
Axes: b batch, n heads, s sequence, d head_dim.
"""

import math
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from bertc.ir.learning.optimizer import Adam
from bertc.learn.objectives import corrupt
from bertc.learn.optim.optimizers import AdamRule
from bertc.learn.step.feed import to_inputs
from bertc.machine.machine import finish
from bertc.model.attention.attend import attend, can_varlen
from bertc.model.attention.masks import AttentionMask, Mask, end_to_end, within_sequences
from bertc.run.beginning.synthetic import RandomText, uniform_vocab
from tests.bench.gpu.setting import TOY, Results, Setting
from tests.kinds import OBJECTIVES

RATE = 0.1
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION, "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH,
}  # fmt: skip


def run(setting: Setting, results: Results) -> None:
    """All checks; one that breaks off does not stop the others."""
    takes = (versions, dropout_shares, kernels, gradients_under_a_mask, adam_without_correction)
    with setting.kernels(setting.resolved(TOY)):
        results.measure_each(setting, *takes, same_masks, one_wait)


def versions(setting: Setting, results: Results) -> None:
    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("transformers", "triton", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    if setting.kind == "cuda":
        properties = torch.cuda.get_device_properties(setting.device)
        found |= {
            "device": properties.name, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "capability": f"{properties.major}.{properties.minor}",
            "memory_bytes": properties.total_memory,
            "free_bytes": torch.cuda.mem_get_info(setting.device)[0],
        }  # fmt: skip
    results.put("versions", **found)


def dropout_shares(setting: Setting, results: Results) -> None:
    """How many probabilities each kernel drops when asked for a tenth.
    Where all scores are alike and the values are the unit matrix, what comes out is the dropped
    probabilities themselves.
    """
    size = 64
    b, n = (4, 2) if setting.tiny else (64, 12)
    zeros = torch.zeros(b, n, size, size, device=setting.device, dtype=torch.bfloat16)
    unit = torch.eye(size, device=setting.device, dtype=torch.bfloat16).expand(b, n, -1, -1)
    # The flash kernel compares draws of eight bits.
    spread = 1 / 256 + 4 * math.sqrt(RATE * (1 - RATE) / zeros.numel())

    def share(mixed: Tensor) -> float:
        return (mixed == 0).double().mean().item()

    for name, backend in BACKENDS.items():
        try:
            with warnings.catch_warnings(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")  # why a kernel is not there, in several lines
                found = share(F.scaled_dot_product_attention(zeros, zeros, unit, None, RATE))
        except RuntimeError as error:
            results.put(f"dropout of {name}", refused=str(error)[:100])
        else:
            results.put(f"dropout of {name}", share=found, right=abs(found - RATE) < spread)
    own = share(attend(zeros, zeros, unit.contiguous(), Mask(), RATE))
    results.check("dropout of attention in a run", abs(own - RATE) < spread, share=own)


def forms(setting: Setting) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """The ways in which encoders ask for attention."""
    b, n, s, d = (2, 2, 64, 32) if setting.tiny else (16, 12, 512, 64)
    draws = torch.Generator().manual_seed(0)

    def values() -> Tensor:
        x = torch.randn(b, n, s, d, generator=draws).to(setting.device, torch.bfloat16)
        return x.requires_grad_()

    query, key, value = values(), values(), values()
    lengths = torch.arange(s - b, s, device=setting.device)
    padded = (torch.arange(s, device=setting.device) < lengths[:, None])[:, None, None]
    starts = torch.arange(0, s, s // 4, device=setting.device).expand(b, -1)
    numbers = torch.arange(s, device=setting.device).div(s // 4, rounding_mode="floor")
    packed = Mask(within_sequences(numbers.expand(b, s)))
    laid_out: AttentionMask = packed
    if can_varlen(setting.device, torch.bfloat16):
        laid_out = end_to_end(starts, s)
    scores = torch.randn(b, n, s, s, generator=draws).to(setting.device, torch.bfloat16)
    asked: dict[str, tuple[Any, float]] = {
        "full rows, dropout": (Mask(), RATE), "full rows": (Mask(), 0.0),
        "padded rows, dropout": (Mask(padded), RATE), "packed rows, dropout": (packed, RATE),
        "packed rows": (laid_out, 0.0), "causal, dropout": (Mask(is_causal=True), RATE),
        "scores of distances, dropout": (Mask(scores.requires_grad_()), RATE),
    }  # fmt: skip
    for name, (mask, rate) in asked.items():
        yield name, lambda m=mask, r=rate: attend(query, key, value, m, r)  # type: ignore[misc]


def kernels(setting: Setting, results: Results) -> None:
    """Which kernels serve each form, forward and backward, and that their results are numbers."""
    on_gpu = setting.kind == "cuda"
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    for name, form in forms(setting):
        form().float().sum().backward()  # once, to have loaded what it needs
        with profile(activities=activities) as profiler:
            mixed = form()
            mixed.float().sum().backward()
            finish(setting.device)
        times = {
            event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total
            for event in profiler.key_averages()
        }
        longest = sorted(times, key=lambda key: times[key], reverse=True)
        found = [key[:60] for key in longest if not key.startswith(("aten::", "cuda"))]
        if not on_gpu:
            found = [key for key in longest if "attention" in key or "softmax" in key]
        results.check(f"kernels: {name}", bool(mixed.isfinite().all()), kernels=found[:4])


def gradients_under_a_mask(setting: Setting, results: Results) -> None:
    """Finite where all scores are far below zero (pytorch issue 196678, of cuDNN's backward)."""
    b, n, s, d = 2, 2, 704, 64
    below = torch.full((b, n, s, d), -4.0, device=setting.device, dtype=torch.bfloat16)
    query, key = below.requires_grad_(), (-below).detach().requires_grad_()
    value = torch.randn_like(query).requires_grad_()
    ends = torch.tensor([[s], [s - 100]]).to(setting.device)
    real = torch.arange(s, device=setting.device) < ends
    attend(query, key, value, Mask(real[:, None, None]), 0.0).float().sum().backward()
    finite = all(bool(x.grad.isfinite().all()) for x in (query, key, value) if x.grad is not None)
    results.check("gradients of attention under a mask", finite)
    if setting.kind == "cuda":
        try:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                mixed = F.scaled_dot_product_attention(query, key, value, real[:, None, None])
                slopes = torch.autograd.grad(mixed.float().sum(), (query, key, value))
        except RuntimeError as error:
            results.put("the same of cuDNN", refused=str(error)[:100])
        else:
            results.put("the same of cuDNN", finite=all(bool(x.isfinite().all()) for x in slopes))


def adam_without_correction(setting: Setting, results: Results) -> None:
    """The fused kernel after infinitely many steps: the same as on the host."""

    def moved(device: torch.device) -> Tensor:
        draws = torch.Generator().manual_seed(1)
        weight = torch.zeros(1000, device=device, requires_grad=True)
        slope = torch.randn(1000, generator=draws).to(device)
        named = {"weight": weight}
        moments = {name: torch.zeros_like(slope) for name in ("m.weight", "v.weight")}
        optimizer = Adam(lr=1e-2, warmup=0, bias_correction=False)
        rule = AdamRule(optimizer, set(), named, moments, 0)
        for _ in range(3):
            weight.grad = slope
            rule.update(1e-2)
        return weight.detach().cpu()

    here, there = moved(torch.device("cpu")), moved(setting.device)
    # The kernel has 1 - beta in fp32, where 1 - 0.999 is 1.3e-5 off.
    apart = (there / here - 1).abs().max().item()
    results.check("Adam without bias correction", apart < 1e-4, largest_difference=apart)


def same_masks(setting: Setting, results: Results) -> None:
    """What a step is to predict is the same on the device as on a CPU, to the bit."""
    for name, objective in OBJECTIVES.items():
        stage = setting.resolved(f"{TOY} {objective}").stages[0]
        made = []
        for device in (torch.device("cpu"), setting.device):
            inputs = to_inputs(RandomText(stage, 500).train(0), device)
            columns = corrupt(stage, inputs, uniform_vocab(500, device), 1)
            made.append([tensor.cpu() for tensor in tensors_of(columns)])
        here, there = made
        same = len(here) == len(there) and all(map(torch.equal, here, there))
        results.check(f"masks of {name}", same)


def tensors_of(value: object) -> Iterator[Tensor]:
    """All tensors in nested tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from tensors_of(part)


def one_wait(setting: Setting, results: Results) -> None:
    """Nothing in a step waits for the device but the one place that says so."""
    if setting.kind != "cuda":
        results.put("one wait", skipped="torch watches waits of CUDA alone")
        return
    for name, objective in OBJECTIVES.items():
        resolved = setting.resolved(f"{TOY} {objective}", "precision=bf16", "compile=off")
        step = setting.step(resolved)
        batches = setting.batches(resolved, step)
        step(batches(0), 0, 1e-4)
        with watched() as seen:
            step(batches(1), 1, 1e-4)
        results.check(f"waits of {name}", len(seen) == 1, waits=len(seen))


@contextmanager
def watched() -> Iterator[list[str]]:
    """Inside, a wait for CUDA raises, but for a tensor that is read as a list, which is noted."""
    seen: list[str] = []
    real = Tensor.tolist

    def read(tensor: Tensor) -> Any:
        if not tensor.is_cuda:
            return real(tensor)
        seen.append("tolist")
        torch.cuda.set_sync_debug_mode("default")
        try:
            return real(tensor)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    with patch.object(Tensor, "tolist", read):
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode("default")
