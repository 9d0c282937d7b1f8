"""``bertc forecast``: a ladder that is trained, or gone on with, and the law that it follows."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from math import inf
from pathlib import Path

import bertc
from bertc import Resolved, UsageError
from bertc.lab.fit.candidate import tokens_of
from bertc.lab.forecast.ladder import Planned, plan_ladder, refuse_others
from bertc.lab.forecast.law import Rung
from bertc.lab.forecast.sealed import FEWEST, LAW, Forecast, flops_of, read_law, sizes_of
from bertc.lab.results.curves import curves
from bertc.lab.search.goal import LOSS, goal_of
from bertc.lab_api import (
    Expected,
    RunFolder,
    changed,
    formatted,
    points,
    programs,
    spec_text,
    units,
)

LEARNED = 0.9
"""The part of the loss of frequencies that a rung is to be below: before, size says nothing."""


def forecast(
    spec: str, overrides: Sequence[str], law: Path | None, out: Path | None, seconds: float | None,
    device: str, seal: Path | None, say: Callable[[str], None],
) -> tuple[Forecast, Expected]:  # fmt: skip
    """The law of a file, or of a ladder that is trained; and the loss expected of a spec.

    The ladder takes ``seconds`` by the estimate for ``device``; None: a tenth of the run's.

    ``seal`` is the folder of the run to be, which has the forecast before its first step.
    """
    grid = programs(spec, overrides)
    if len(grid) > 1:
        raise UsageError(f"this spec is a grid of {len(grid)} points", help="a forecast is of one")
    if seal and RunFolder(seal).holds_a_run:
        raise UsageError(f"{seal} holds a run already", help="a forecast is made before the run")
    (resolved,) = points(grid[0])
    refuse_others(grid[0], resolved)
    if law:
        file, known = law, read_law(law)
    else:
        title = Path(spec).stem if spec_text(spec) != spec and spec != "-" else "spec"
        folder = out or Path("runs") / f"{title}-ladder"
        plan = plan_ladder(grid[0], resolved, device, seconds)
        file, known = folder / LAW, _climb(plan, resolved, folder, say)
    known.refuse_others(resolved)
    expected = known.expected(resolved)
    if seal:
        digest, of_program = sha256(file.read_bytes()).hexdigest(), resolved.fingerprint()
        facts = {"schema": 1, "fingerprint": of_program, "law": digest}
        facts["expected"] = expected._asdict()
        seal.mkdir(parents=True, exist_ok=True)
        RunFolder(seal).forecast.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return known, expected


def _climb(
    plan: Sequence[Planned], resolved: Resolved, folder: Path, say: Callable[[str], None]
) -> Forecast:
    """Train a ladder and write its law; one that was killed goes on.

    A rung that fails is named and left out.
    """
    total = units.duration_text(sum(rung.seconds for rung in plan))
    say(f"a ladder of {len(plan)} rungs, by estimate {total}")
    for planned in plan:
        run = RunFolder(folder / planned.name)
        if run.holds_a_run and changed(run.read_resolved(), planned.resolved):
            raise UsageError(f"{run.path} has other settings", help="--out of a new folder")
    rungs = list[Rung]()
    for number, planned in enumerate(plan, 1):
        say(f"rung {number} of {len(plan)}: {planned.name}")
        try:
            rung, guess = _train(planned, folder / planned.name)
            if rung.loss < LEARNED * guess:
                rungs.append(rung)
            else:
                say(
                    f"rung {rung.name} is left out: its loss, {rung.loss:.3f}, is still near that "
                    f"of token frequencies, {guess:.3f}"
                )
        except (bertc.DataError, bertc.MachineError) as error:
            say(f"rung {planned.name} failed and is left out: {str(error).splitlines()[0]}")
        except bertc.StoppedError as error:
            raise type(error)(error.message, help="the same command goes on") from None
    _refuse_few(rungs, folder)
    law = Forecast.of(resolved, rungs)
    (folder / LAW).write_text(law.as_json() + "\n", encoding="utf-8")
    return law


def _train(planned: Planned, path: Path) -> tuple[Rung, float]:
    """Train a rung, unless it is finished; its loss, and that of frequencies, inf if not known."""
    run, resolved = RunFolder(path), planned.resolved
    if not (run.holds_a_run and run.is_finished(resolved)):
        bertc.train(resolved, path, spec_text=formatted(planned.program), resume=run.holds_a_run)
    lines = curves(path)
    goal = goal_of(LOSS, resolved)
    values, figure = goal.values(lines), goal.figure(lines.names)
    masked = [n for n in lines.names if n.startswith("eval/unigram_loss/") and "_masked" in n]
    guess = masked[0] if "_masked" in figure and masked else "eval/unigram_loss"
    guesses = lines.of(guess, "step")[1]
    if not values:
        raise UsageError(f"{path} was never evaluated", help="a part of the text is held out")
    parameters, tables = sizes_of(resolved)
    rung = Rung(
        planned.name, parameters, tables, tokens_of(resolved), flops_of(resolved),
        seconds=lines.points[-1].seconds, loss=values[-1],
    )  # fmt: skip
    return rung, guesses[-1] if guesses else inf


def _refuse_few(rungs: Sequence[Rung], folder: Path) -> None:
    """Refuse a ladder that says nothing."""
    if len(rungs) < FEWEST:
        raise UsageError(
            f"{len(rungs)} rungs of {folder} count, and a law needs {FEWEST}",
            help="mend what failed, and the same command goes on; or a longer ladder (--time)",
        )
    least, most = (pick(rungs, key=lambda rung: rung.tokens) for pick in (min, max))
    if most.loss >= least.loss:
        raise UsageError(
            f"losses do not fall: {least.name} has {least.loss:.3f}, {most.name} {most.loss:.3f}",
            help="a longer ladder (--time), or a lower learning rate",
        )
