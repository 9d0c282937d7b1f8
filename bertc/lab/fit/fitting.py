"""Settings, or the size of a new network, for a budget of parameters, FLOPs, time or memory.

Every value of the free settings makes a candidate, which is estimated. Of those within all budgets
the one is taken that uses the most of the first budget, then of the second, and so on. Memory is
a limit alone, since micro-batches fill what there is: within it the most parameters are taken.
With free steps all sizes use up FLOPs or time: see sizes.py. A new network has a published shape,
the largest that the budget and the text train enough. Loads no torch.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from bertc import UsageError
from bertc.lab.fit.candidate import SPENT, UNITS, Budget, Candidate, Target, budget, candidate
from bertc.lab.fit.choice import Choice
from bertc.lab.fit.sizes import choose_by_law, choose_with_steps, resolvable
from bertc.lab.forecast.sealed import Forecast
from bertc.lab_api import Program, device_named, programs, spec_text

STEPS = "steps"
CANDIDATES: Mapping[str, tuple[int, ...]] = {
    "layers": (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 48),
    "hidden": tuple(range(64, 1088, 64)) + (1152, 1280, 1408, 1536, 1664, 1792, 2048),
    "embedding": (32, 64, 128, 256, 512),
    "seq": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
    "batch": tuple(1 << power for power in range(3, 15)),
}
"""Values of ``NAME=?``; those of ``steps=?`` follow from the budget."""
WIDTH_PER_LAYER = (32, 128)
"""Least and most of hidden / layers where both are ``?``; BERT's sizes have 43 to 128."""
FREE = re.compile(r"\b(\w+)\s*=\s*\?")
ALIASES = {"E": "embedding"}


def choose(
    spec: str,
    budgets: Sequence[Budget],
    overrides: Sequence[str] = (),
    device: str = "h200",
    devices: int = 1,
    law: Forecast | None = None,
    loss: float = 0.0,
) -> Choice:
    """Choose the values of free settings: lists in braces, and ``NAME=?`` for the usual ones.

    By a ``law`` those with the lowest expected loss, or with the least time to a ``loss``.
    """
    if loss and law is None:
        raise UsageError("--loss needs a law", help="bertc forecast SPEC makes one: --law FILE")
    if not budgets and not loss:
        raise UsageError(
            "there is no budget",
            help="--params 14M, or " + ", ".join(f"--{k}" for k in UNITS if k != "params"),
        )
    content = spec_text(spec)
    written = content if FREE.search(content) or spec == "-" else spec
    text, free = _with_candidates(written, overrides, budgets, free_steps=bool(loss))
    both = {"layers", "hidden"} <= free
    tried = [program for program in programs(*text) if not both or _usual(program)]
    if len(tried) == 1 and not free:
        raise UsageError(
            "nothing is free: the spec is one program",
            help='layers=?, hidden=?, steps=?, or a list: "layers={2, 4, 6}"',
        )
    target = Target(tuple(budgets), device, devices, loss, SPENT if law else ())
    if law:
        choice = choose_by_law(tried, target, law, free_steps=STEPS in free)
    else:
        choice = (choose_with_steps if STEPS in free else choose_among)(tried, target)
    return replace(choice, source="" if content == spec else spec)


def choose_among(programs: Sequence[Program], target: Target) -> Choice:
    """Choose among programs."""
    known, mistakes = resolvable(programs)
    candidates = [candidate(*figures, target) for figures in known]
    budgets = target.budgets
    within = [c for c in candidates if max(c.shares(budgets)) <= 1]
    best = sorted(within, key=lambda c: c.used(budgets), reverse=True)
    shown = best or sorted(candidates, key=lambda c: max(c.shares(budgets)))
    return Choice(budgets, tuple(shown), len(within), len(candidates), len(mistakes))


def _with_candidates(
    spec: str, overrides: Sequence[str], budgets: Sequence[Budget], *, free_steps: bool
) -> tuple[tuple[str, list[str]], set[str]]:
    """The spec and overrides with a list for each ``NAME=?``, and these names."""
    names = set[str]()

    def listed(match: re.Match[str]) -> str:
        name = ALIASES.get(match[1], match[1])
        names.add(name)
        if name == STEPS:
            return f"{STEPS}=1000"
        if name not in CANDIDATES:
            raise UsageError(
                f"{match[0]}: there are no usual values of `{match[1]}`",
                help=f"a list in braces; ? is for {', '.join((*CANDIDATES, STEPS))}",
            )
        return f"{match[1]}={{{', '.join(map(str, CANDIDATES[name]))}}}"

    with_lists = FREE.sub(listed, spec), [FREE.sub(listed, override) for override in overrides]
    if STEPS in names and not (free_steps or {*SPENT} & {budget.kind for budget in budgets}):
        raise UsageError(
            "steps=? needs a budget that steps spend", help="--flops 1e18 or --time 8h"
        )
    return with_lists, names


def _usual(program: Program) -> bool:
    """True for the shapes of this family: neither one wide layer nor fifty narrow ones."""
    hidden, layers = (program.settings[name].value for name in ("hidden", "layers"))
    least, most = WIDTH_PER_LAYER
    return bool(least <= hidden / layers <= most)


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
        untuned = replace(parts, task=()) if parts.training else parts
        program = programs(untuned.written(1000 * bool(parts.training)))[0]
        steps_free = bool(parts.training) and limit.kind in SPENT
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
