"""Whether the device trains as a CPU does, compiled as not, and goes on to the same bits.
Axes: b batch, s sequence, h hidden.
"""

import math
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest.mock import patch

import torch
from safetensors.torch import load_file
from torch import Tensor

from bertc.learn.step.step import TrainStep
from bertc.model import EncoderInputs
from bertc.run.train.loop import train
from tests.bench.gpu.setting import TOY, Results, Setting
from tests.net.programs import FARM

STEPS = 20
RATE = 0.1
TEXT = FARM / "farm.txt"
CASES = {
    "bert": "objective=mlm+nsp", "albert": "objective=span+sbo+sop share=all E=32",
    "electra": "objective=rtd*50+mlm generator=0.5",
    "xlnet": "objective=plm attention=relative(untie=true)", "gpt": "objective=clm norm=pre",
    "packed": "objective=mlm+nsp format=sentence-pair pack=true",
}  # fmt: skip


def run(setting: Setting, results: Results) -> None:
    """All of it; what breaks off does not stop the rest."""
    takes = (compare_with_a_cpu, compiled_beside_eager, dropout_of_layers, resumed)
    results.measure_each(setting, *takes)


def losses(setting: Setting, spec: str, steps: int, compiled: bool = False) -> list[float]:
    """Of so many steps, without dropout."""
    torch.compiler.reset()
    resolved = setting.resolved(f"{spec} dropout=0", f"compile={'on' if compiled else 'off'}")
    with setting.kernels(resolved):
        take = setting.steps(resolved, compiled)
        return [take(number).loss for number in range(steps)]


def apart(some: list[float], others: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(a / b - 1) for a, b in zip(some, others, strict=True))


def compare_with_a_cpu(setting: Setting, results: Results) -> None:
    """The first steps in fp32 on both, of the same weights and batches."""
    steps, cpu = 3 if setting.tiny else STEPS, Setting(torch.device("cpu"), setting.tiny)
    for name, extra in [*CASES.items()][: 2 if setting.tiny else None]:
        spec = f"{TOY} {extra} precision=fp32"
        there, here = losses(setting, spec, steps), losses(cpu, spec, steps)
        most = apart(there, here)
        results.check(f"{name}: losses beside a CPU's", most < 1e-4, largest_difference=most)


def compiled_beside_eager(setting: Setting, results: Results) -> None:
    """The first steps in bf16, compiled and not."""
    for name, extra in [*CASES.items()][: 1 if setting.tiny else None]:
        spec, steps = f"{TOY} {extra} precision=bf16", 2 if setting.tiny else 8
        eager = losses(setting, spec, steps)
        most = apart(losses(setting, spec, steps, compiled=True), eager)
        results.check(f"{name}: compiled beside eager", most < 1e-2, largest_difference=most)


def dropout_of_layers(setting: Setting, results: Results) -> None:
    """How many elements each layer drops, and that no draw repeats another's.
    Where all parts give one, the states of a pre-norm encoder count the branches that stayed. Of m
    branches they are binomial if all draw by themselves; the same draws in two layers widen that,
    and draws that neighbours share show as neighbours alike (pytorch issue 198333).
    """
    sizes = ["layers=2"] if setting.tiny else ["layers=6", "batch=32", "hidden=256", "heads=4"]
    for precision in ("bf16",) if setting.tiny else ("fp32", "bf16"):
        for compiled in (False, True):
            torch.compiler.reset()
            resolved = setting.resolved(
                f"{TOY} objective=mlm norm=pre",
                *sizes, f"precision={precision}", f"compile={'on' if compiled else 'off'}",
            )  # fmt: skip
            with setting.kernels(resolved):
                stayed_bsh = branches_that_stayed(setting, setting.step(resolved, compiled))
            branches = 2 * len(resolved.encoder.layers)
            name = f"dropout {precision}{', compiled' * compiled}"
            check_counts(results, name, stayed_bsh, branches)


def branches_that_stayed(setting: Setting, step: TrainStep) -> Tensor:
    """Of every element (b, s, h), how many branches were added to it."""
    model = step._model
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(float(name.endswith(("output.bias", "outer.bias"))))
    encoder, stage = model.encoder, step.stage
    encoder._regions = (*encoder._regions[:2], lambda x: x)
    torch.manual_seed(3)
    ids = torch.zeros(stage.batch, stage.seq, dtype=torch.long, device=setting.device)
    x_bsh = model.read(EncoderInputs(ids, torch.zeros_like(ids)))
    return (x_bsh.detach().float() * (1 - RATE)).round().cpu()


def check_counts(results: Results, name: str, stayed_bsh: Tensor, branches: int) -> None:
    """Beside a binomial distribution."""
    number = stayed_bsh.numel()
    rate = 1 - stayed_bsh.mean().item() / branches
    spread = math.sqrt(RATE * (1 - RATE) / (number * branches))
    wide = stayed_bsh.var().item() / (branches * RATE * (1 - RATE))
    flat = (stayed_bsh - stayed_bsh.mean()).flatten()
    square = flat.square().mean().item() or 1.0
    alike = {
        str(lag): (flat[lag:] * flat[:-lag]).mean().item() / square
        for lag in (1, 2, 3, 4, stayed_bsh.shape[2])
    }
    ok = abs(rate - RATE) < 4 * spread and abs(wide - 1) < 0.03
    ok = ok and max(map(abs, alike.values())) < 6 / math.sqrt(number)
    results.check(name, ok, rate=rate, variance=wide, neighbours_alike=alike)


class Killed(BaseException):
    """The end of a run, in the middle of a step."""


def resumed(setting: Setting, results: Results) -> None:
    """A run that broke off and went on has the bits of one that did not."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # the same sums on a CPU in both runs
        stack.enter_context(setting.compiler())
        compiled = "off" if setting.tiny else "auto"
        resolved = setting.resolved(
            f'layers=2 hidden=32 heads=2 seq=24 batch=8 steps=8 data=files("{TEXT}") '
            f"vocab=wordpiece(120) save_every=3 eval_every=8 log_every=1 compile={compiled}",
            "deterministic=yes",
        )
        straight, broken, cache = (Path(folder) / name for name in ("straight", "broken", "cache"))
        train(resolved, straight, cache=cache, quiet=True)
        real = TrainStep.__call__

        def until(self: TrainStep, batch: object, step: int, *others: object) -> object:
            if step == 5:
                raise Killed
            return real(self, batch, step, *others)  # type: ignore[arg-type]

        with patch.object(TrainStep, "__call__", until), suppress(Killed):
            train(resolved, broken, cache=cache, quiet=True)
        train(resolved, broken, cache=cache, quiet=True, resume=True)
        differing = [
            name
            for file in ("weights", "optimizer")
            for name, tensor in last(straight, file).items()
            if not torch.equal(tensor, last(broken, file)[name])
        ]
    results.check("resumed to the same bits", not differing, differing=differing[:5])


def last(run_folder: Path, file: str) -> dict[str, Tensor]:
    """The tensors of the newest checkpoint."""
    newest = max((run_folder / "checkpoints").glob("step-*"))
    return load_file(newest / f"{file}.safetensors")
