"""Which of torch's kernels a run may use, and that nothing of it stays when the run is over."""

import os

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import DataError, MachineError
from bertc.cost.planning.plan import Fit, Machine, plan
from bertc.machine import machine
from bertc.machine.machine import SUMS, determinism, is_deterministic, kernels, right_dropout
from bertc.machine.out_of_memory import is_out_of_memory


def state():
    from torch._inductor import config

    return (
        {name: os.environ.get(name) for name in SUMS},
        torch.get_deterministic_debug_mode(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        config.deterministic,
        getattr(config, "align_random_eager", None),
    )


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


def test_a_gpu_adds_in_any_order_unless_asked(gpu):
    before = state()
    with kernels(resolve("compile=off").run, "cuda"):
        assert state()[:2] == before[:2]
    with kernels(resolve("deterministic=yes").run, "cpu"):
        environment, mode, _, compiler, _ = state()
        assert (environment, mode, compiler) == (SUMS, 2, True)


@pytest.mark.parametrize("asked", ["yes", "no"])
def test_a_cpu_adds_in_one_order_whatever_is_asked(gpu, asked):
    assert is_deterministic(resolve(f"deterministic={asked}").run, "cpu")
    assert is_deterministic(resolve(f"deterministic={asked}").run, "cuda") == (asked == "yes")


def test_the_plan_of_a_gpu_tells_the_price(gpu):
    fit = (Fit(8, 8, recompute=False),)
    for asked, words in {"no": "agree to rounding", "yes": "slower"}.items():
        reasons = plan(resolve(f"batch=8 deterministic={asked}"), gpu, fit).reasons
        assert any(f"deterministic={asked}" in r and words in r for r in reasons)


def test_what_has_no_deterministic_kernel_is_named():
    def refused():
        raise RuntimeError("put_ does not have a deterministic implementation, but you set it")

    with pytest.raises(MachineError, match="no deterministic kernel for put_"), determinism():
        refused()
    with pytest.raises(RuntimeError, match="other"), determinism():
        raise RuntimeError("other")


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("no"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (DataError("the text says: out of memory"), False),
    ],
)
def test_a_full_device_is_known_by_whatever_says_so(error, full):
    assert is_out_of_memory(error) == full


def test_compiled_steps_draw_as_eager_ones_where_four_draws_at_once_repeat():
    from torch._inductor import config
    from torch._inductor.codegen.triton import TritonOverrides

    flawed = hasattr(TritonOverrides, "_can_use_4x_random")
    with right_dropout(compiled=True):
        assert getattr(config, "align_random_eager", False) == flawed
    with right_dropout(compiled=False):
        assert not getattr(config, "align_random_eager", False)
