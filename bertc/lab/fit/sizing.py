"""The size of a new network for a budget, its text and its machine. Loads no torch.

Published shapes are tried by the mechanism of ``bertc fit``. The largest is taken that the budget
and the text train enough; a spec is made of parts, so that each shape is tried as it will be.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from bertc import UsageError
from bertc.lab.fit.candidate import SPENT as SPENDING
from bertc.lab.fit.candidate import Budget, Candidate, Target, budget
from bertc.lab.fit.fitting import choose_among
from bertc.lab.fit.sizes import choose_with_steps
from bertc.lab_api import device_named, programs

SHAPES = (
    (2, 128, 192), (4, 256, 384), (7, 256, 384), (10, 384, 576), (19, 512, 768), (22, 768, 1152),
    (28, 1024, 2624),
)  # fmt: skip
"""Layers, hidden and ffn: from the third on Ettin's, 17m to 400m, before it smaller ones."""
RATES = ((256, "1.2e-3"), (768, "8e-4"), (4096, "5e-4"))
"""Peak rates by width: those of quickstart-bert, ettin-150m and ettin-400m."""
TOKENS_PER_PARAMETER = 20
"""Hoffmann et al. 2022, table 3: about as many are best for a given number of FLOPs."""
MOST_PASSES = 40
"""Devlin et al. 2019, appendix A.2: BERT read its text about 40 times."""
FEWEST_STEPS = 100
USED = 0.8
"""Share of a budget below which a spec says why it takes no more."""
LEAST_SHARE = 0.01
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Machine:
    """Devices by name and their number: ``cpu``, ``h100x8``."""

    device: str = "cpu"
    count: int = 1

    def __str__(self) -> str:
        return self.device if self.count == 1 else f"{self.count} {self.device}"

    @property
    def rows(self) -> tuple[int, int]:
        """Examples a step, and tokens of each: 4,096 tokens on a CPU, 65,536 a GPU."""
        return (16, 256) if self.device.lower() == "cpu" else (128 * self.count, 512)


def machine_named(text: str) -> Machine:
    """Read ``cpu``, ``h100`` or ``h100x8``."""
    name = text.strip()
    match = re.fullmatch(r"(.+)x([1-9]\d{0,3})", name)  # rtx4090 is one device
    for machine in (Machine(name), *([Machine(match[1], int(match[2]))] if match else [])):
        try:
            device_named(machine.device)
            return machine
        except UsageError as error:  # its help is of the option that names a device elsewhere
            unknown = UsageError(error.message, error.help.replace("--device", "--machine"))
    raise unknown


def budget_named(text: str) -> Budget:
    """Read ``14M`` (parameters), ``8h`` (time) or ``1e18`` (FLOPs)."""
    for kind in ("time", "params", "flops"):
        try:
            read = budget(kind, text)
        except UsageError:
            continue
        if kind != "params" or read.most < 1e12:
            return read
    raise UsageError(
        f"{text[:60]}: neither a size nor a budget",
        help="parameters (14M), a time (90min, 8h, 2d) or FLOPs (1e18, 3E)",
    )


@dataclass(frozen=True)
class Sized:
    """A spec, and why it stays far below its budget; "" if it does not."""

    spec: str
    why: str = ""


@dataclass(frozen=True)
class Parts:
    """Lines of a spec: its network, its text, how that is learned, and a task after it."""

    network: tuple[str, ...]
    text: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    task: tuple[str, ...] = ()

    def written(self, steps: int = 0) -> str:
        """The spec, ``steps`` long on text; beside a task text is a stage of its own."""
        training = [*self.training, *([f"steps = {steps}"] if steps else [])]
        if self.training and self.task:
            training = [
                'stage "text" {', "# The words of the texts first, with some of them masked.",
                "objective = mlm", *training, "}",
                'stage "task" {', "# Then the task, by a published recipe.", *self.task, "}",
            ]  # fmt: skip
            return "\n".join([*self.network, *self.text, *training, ""])
        return "\n".join([*self.network, *self.text, *training, *self.task, ""])


def shapes(parts: Parts) -> list[Parts]:
    """The parts with each of the published shapes as their network, the smallest first."""
    variants = []
    for layers, hidden, ffn in SHAPES:
        rate = next(rate for width, rate in RATES if hidden <= width)
        network = (
            "extends modernbert  # rotary positions, windows, gates, norms before each part",
            f"layers = {layers}",
            f"hidden = {hidden}  # heads follow: hidden / 64",
            f"ffn = {ffn}",
        )
        rule = (f"optimizer = adamw({rate}, warmup=10%)",) if parts.training else ()
        variants.append(replace(parts, network=network, training=(*parts.training, *rule)))
    return variants


def fit_size(tried: Sequence[Parts], limit: Budget, machine: Machine, text_bytes: int) -> Sized:
    """The spec of the largest network that the budget and the text train enough.

    On text it is trained for as long as the budget lasts, at most ``MOST_PASSES`` passes. Of a
    budget of parameters the largest is taken, and ``TOKENS_PER_PARAMETER`` tokens for each.
    """
    chosen, used = Sized(""), 1.0
    target = Target((limit,), machine.device, machine.count)
    for parts in tried:
        alone = replace(parts, task=()) if parts.training else parts
        program = programs(alone.written(1000 * bool(parts.training)))[0]
        steps_free = bool(parts.training) and limit.kind in SPENDING
        choice = (choose_with_steps if steps_free else choose_among)([program], target)
        candidate = choice.candidates[0]
        if not choice.fits and not chosen.spec:
            least = limit.text(candidate.figures[limit.kind])
            raise UsageError(
                f"no network is within {limit.text(limit.most)}: the smallest takes {least}",
                help="a larger budget",
            )
        afforded = candidate.resolved.steps * steps_free
        steps, is_enough = _steps(candidate, machine, text_bytes, afforded)
        if chosen.spec and not (choice.fits and (is_enough or not steps_free)):
            larger = "the next larger shape takes more than all of it"
            break
        used = steps / afforded if afforded else candidate.figures[limit.kind] / limit.most
        chosen = Sized(parts.written(steps if parts.training else 0))
    else:
        larger = "init knows no larger shape"
    if used >= USED:
        return chosen
    passes = f"more steps would read the text more than {MOST_PASSES} times"
    share = f"{used:.0%}" if used >= LEAST_SHARE else "Less than 1%"
    why = f"{share} of --budget {limit.text(limit.most)}: {passes if steps_free else larger}."
    return replace(chosen, why=why)


def _steps(option: Candidate, machine: Machine, text_bytes: int, afforded: int) -> tuple[int, bool]:
    """Steps on a text, and whether they are enough; ``afforded`` 0 means any number."""
    batch, seq = machine.rows
    enough = ceil(TOKENS_PER_PARAMETER * option.parameters / (batch * seq))
    most = max(FEWEST_STEPS, int(MOST_PASSES * text_bytes / BYTES_PER_TOKEN / (batch * seq)))
    steps = min(most, afforded or enough)
    return steps, steps >= enough
