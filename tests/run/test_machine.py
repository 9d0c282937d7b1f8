"""What a machine offers, pretended: memory, arithmetic, speed, and torch's kernels."""

import os
import platform
import resource
import sys
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import DataError, MachineError, UsageError
from bertc.cost import largest_microbatches
from bertc.cost.machines.devices import this_cpu
from bertc.cost.planning.plan import Fit, Machine, plan
from bertc.cost.planning.world import Layout, World
from bertc.machine import machine
from bertc.machine.machine import (
    SUMS,
    detect,
    determinism,
    device_here,
    is_deterministic,
    kernels,
    make_plan,
)
from bertc.machine.memory import is_out_of_memory, keep_freed_memory, refuse_what_cannot_fit
from bertc.run import launch
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from bertc.run.train.start import machine_of

GIB = 2**30


@pytest.fixture
def card(monkeypatch):
    """A GPU with other work on it, of any name."""

    def pretend(name, bf16=True, devices=1):
        for question, answer in {
            "device_count": devices, "is_available": True, "get_device_name": name,
            "mem_get_info": (10 * GIB, 80 * GIB), "is_bf16_supported": bf16,
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, question, lambda answer=answer, **_: answer)

    return pretend


def reasons(machine, batch=8, **how):
    resolved = resolve(f"layers=2 hidden=64 heads=2 vocab=1000 seq=32 batch={batch}")
    return plan(resolved, machine, largest_microbatches(resolved, machine), **how).reasons


def test_the_plan_is_made_for_the_free_memory_that_each_has(card):
    card("NVIDIA H100 80GB HBM3")
    assert detect().memory_bytes == 10 * GIB
    assert "bf16: NVIDIA H100 80GB HBM3 has fast bf16" in reasons(detect())
    assert device_here(detect()).name == "h100"
    card("NVIDIA H100 PCIe")
    found = device_here(detect())
    assert (found.name, found.memory_bytes) == ("h100-pcie", 10 * GIB)
    card("Quadro P5000", bf16=False)
    assert "fp32: Quadro P5000 has no fast bf16" in reasons(detect())
    assert device_here(detect("cpu")) == this_cpu()
    card("NVIDIA L4")
    resolved = resolve("layers=12 hidden=768 vocab=30522 seq=512 batch=256 precision=bf16")
    ranks = SimpleNamespace(world=World(2, 2), least=lambda own: min(own, 6 * GIB))
    tight = make_plan(resolved, World(2, 2), machine_of("auto", ranks))
    assert tight.microbatches < make_plan(resolved, World(2, 2)).microbatches
    with pytest.raises(UsageError, match="of 256 examples cannot be shared by 257 processes"):
        make_plan(resolved, World(257, 257))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_plan_beyond_memory_is_refused_with_one_that_fits(device, tiny, tmp_path, monkeypatch):
    """Neither is one refused that fits, as far as estimates tell, nor one that was chosen."""
    shape = "layers=4 hidden=128 vocab=1000 batch=4096"
    stages = "stage 'a' { steps=2 seq=32 } stage 'b' { steps=2 seq=128 }"
    machine = Machine(device, "it", GIB, fast_bf16=False, cores=2)

    def tried(*settings):
        resolved = resolve(f"{shape} {stages}", [*settings, f"device={device}", "compile=off"])
        fits = largest_microbatches(resolved, machine)
        chosen = plan(resolved, machine, fits)
        refuse_what_cannot_fit(resolved, chosen, machine, World())
        return chosen.microbatches, fits

    sizes, fits = tried()
    assert max(sizes) < 4096
    with pytest.raises(MachineError, match="4,096 examples of 32 tokens at once") as caught:
        tried("microbatch=4096")
    sizes, fits = tried(caught.value.help.removeprefix("--set ").partition(":")[0])
    assert all(1 < size <= fit.examples for size, fit in zip(sizes, fits, strict=True))
    here = replace(detect("cpu"), memory_bytes=2 * 2**20)
    monkeypatch.setattr(import_module("bertc.run.train.loop"), "machine_of", lambda *_: here)
    with pytest.raises(MachineError, match="do not fit in 2.00 MiB"):
        train(tiny(microbatch=64, batch=64), tmp_path / "run", quiet=True)


def test_an_unknown_one_is_measured_and_gets_no_other_ones_figures(monkeypatch):
    monkeypatch.setitem(machine.MATMUL, "cpu", (64, 1))
    monkeypatch.setattr(machine, "MATMUL_SECONDS", 0.0)
    monkeypatch.setattr(machine, "COPIED_NUMBERS", 1 << 10)
    monkeypatch.setattr(torch, "device", lambda _: torch.zeros(0).device)
    found = device_here(Machine("cuda", "NVIDIA H20", GIB, fast_bf16=True, cores=2))
    assert (found.name, found.kind, found.memory_bytes) == ("NVIDIA H20", "cuda", GIB)
    for figure in (found.fp32_flops, found.bf16_flops, found.bandwidth_bytes):
        assert 0 < figure < 1e12


def test_idle_gpus_are_reported_and_processes_without_one_refused(card):
    card("NVIDIA L4", devices=8)
    assert "7 of 8 GPUs are idle: --nproc 8" in reasons(detect())
    assert "7 of 8 GPUs are idle: --nproc 4" in reasons(detect(), batch=4)
    shared = reasons(detect(), batch=4, layout=Layout(World(4, 4), "ddp"))
    assert "4 of 8 GPUs are idle: --nproc 4" in shared
    assert "idle" not in "".join(reasons(detect("cpu")))
    card("NVIDIA L4", devices=2)
    machine.refuse_too_few_devices("auto", 2)
    machine.refuse_too_few_devices("cpu", 9)
    with pytest.raises(MachineError, match="9 processes need a GPU each, but this machine has 2"):
        machine.refuse_too_few_devices("auto", 9)


def test_processes_compile_on_as_many_cores_as_they_have(monkeypatch, tmp_path):
    monkeypatch.setattr(launch.os, "environ", {})
    monkeypatch.setattr(launch, "available_cores", lambda: 16)
    monkeypatch.setattr(launch, "elastic_launch", lambda *_: lambda *_: None)
    monkeypatch.setattr(launch.logging, "disable", lambda _: None)
    assert launch.launch(["train"], 4, tmp_path) == 0
    assert launch.os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "4"
    assert launch.os.environ["OMP_NUM_THREADS"] == "4"


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's"
)
def test_pages_are_not_mapped_anew_every_time():
    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**24)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with keep_freed_memory():
        again = [faults() for _ in range(12)][6:]
    assert sum(again) < 3 * 16_384, "64 MiB are 16,384 pages"


@pytest.mark.skipif(sys.platform != "linux", reason="no peak can be reset elsewhere")
def test_the_peak_of_a_run_is_not_that_of_what_was_before_in_its_process(tiny, tmp_path, go):
    held = torch.ones(2**28)  # 1 GiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    del held
    go(tiny())
    peak = max(spent.memory_bytes for spent in RunFolder(tmp_path / "run").read_spent())
    assert 0 < peak < before - 2**29


def state():
    from torch._inductor import config

    return (
        {name: os.environ.get(name) for name in SUMS}, torch.get_deterministic_debug_mode(),
        torch.backends.cuda.cudnn_sdp_enabled(), config.deterministic,
        getattr(config, "align_random_eager", None),
    )  # fmt: skip


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, to those who ask."""
    card = Machine("cuda", "NVIDIA H100", 80 << 30, fast_bf16=True, cores=8)
    cpu = Machine("cpu", "CPU", 80 << 30, fast_bf16=True, cores=8)
    monkeypatch.setattr(machine, "detect", lambda wanted: cpu if wanted == "cpu" else card)
    return card


@pytest.mark.parametrize(
    "settings", ["deterministic=no", "deterministic=yes", "deterministic=yes compile=off"]
)
def test_nothing_stays_when_a_run_is_over(gpu, settings):
    before = state()
    with kernels(resolve(settings).run, "cuda"):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert state() == before


def test_a_gpu_adds_in_any_order_unless_set_and_its_plan_tells_the_price(gpu):
    before = state()
    with kernels(resolve("compile=off").run, "cuda"):
        assert state()[:2] == before[:2]
    with kernels(resolve("deterministic=yes").run, "cpu"):
        environment, mode, _, compiler, _ = state()
        assert (environment, mode, compiler) == (SUMS, 2, True)
    fit = (Fit(8, 8, recompute=False),)
    for asked, words in {"no": "agree to rounding", "yes": "slower"}.items():
        reasons = plan(resolve(f"batch=8 deterministic={asked}"), gpu, fit).reasons
        assert any(f"deterministic={asked}" in r and words in r for r in reasons)


@pytest.mark.parametrize("asked", ["yes", "no"])
def test_a_cpu_adds_in_one_order_with_any_setting(gpu, asked):
    assert is_deterministic(resolve(f"deterministic={asked}").run, "cpu")
    assert is_deterministic(resolve(f"deterministic={asked}").run, "cuda") == (asked == "yes")


def test_what_has_no_deterministic_kernel_is_named():
    def refused():
        raise RuntimeError("put_ does not have a deterministic implementation, but you set it")

    with pytest.raises(MachineError, match="no deterministic kernel for put_"), determinism():
        refused()
    with pytest.raises(RuntimeError, match="other"), determinism():
        raise RuntimeError("other")


@pytest.mark.parametrize(("error", "full"), [
    (torch.OutOfMemoryError("no"), True),
    (MemoryError(), True),
    (RuntimeError("CUDA error: out of memory"), True),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"), True),
    (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    (DataError("the text says: out of memory"), False),
])  # fmt: skip
def test_a_full_device_is_known_by_whatever_says_so(error, full):
    assert is_out_of_memory(error) == full


def test_compiled_steps_draw_as_eager_ones_where_four_draws_at_once_repeat():
    from torch._inductor import config
    from torch._inductor.codegen.triton import TritonOverrides

    flawed = hasattr(TritonOverrides, "_can_use_4x_random")
    for compiled in (True, False):
        with machine.right_dropout(compiled=compiled):
            assert getattr(config, "align_random_eager", False) == (flawed and compiled)
