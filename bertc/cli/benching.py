"""Commands that measure: training steps, answers to texts, and this machine."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bertc.base.diagnostics import UsageError
from bertc.base.storage.paths import is_folder
from bertc.cli import options
from bertc.cli.options import SPECS, app, option, refuse_others, refuse_unquoted, say, spec_argument

if TYPE_CHECKING:
    from bertc.lab.bench.cases import Choices

OF_STEPS = ("set", "json", "against", "rounds", "compile")
OF_ANSWERS = (
    "latency", "set", "json", "length", "batch", "runtime", "precision", "threads", "seconds",
)  # fmt: skip


@app.command()
def bench(
    context: typer.Context,
    networks: list[str] | None = spec_argument(None, SPECS, callback=refuse_unquoted),
    set: options.SetOption = None,
    against: str | None = option(None, "also time another system: transformers"),
    rounds: int = option(7, "timed turns of each system", min=1, max=1000),
    compile: bool = option(False, "time compiled forms too", "--compile"),
    latency: bool = option(False, "time answers of run folders and specs instead", "--latency"),
    length: str = option("128", "latency: tokens of a text, 32,128"),
    batch: str = option("1", "latency: texts at once, 1,8"),
    runtime: str = option("torch", "latency: torch, onnx, or torch,onnx"),
    precision: str = option("fp32", "latency: fp32, bf16 (torch), int8 (onnx)"),
    threads: str = option("1,all", "latency, calibrate: threads; all is one per core"),
    seconds: float = option(60.0, "latency: time for all turns, at most", min=0.1, max=36_000),
    calibrate: bool = option(
        False, "measure this CPU instead, so that estimated times fit it", "--calibrate"
    ),
    json: options.JsonOption = False,
) -> None:
    """Time the training step of specs on random tokens, answers to texts, or this CPU.

    Systems and networks are timed in turns. Answers are timed on this CPU, for runs and specs side
    by side, specs with random weights. --calibrate takes less than a minute.
    """
    from bertc.api import resolve

    if calibrate:
        refuse_others(context, "--calibrate", ("calibrate", "threads"))
        _calibrate(threads)
        return
    if not networks:
        raise UsageError("bertc bench times specs", "bertc bench SPEC, or bertc bench --calibrate")
    what, read = ("answers", OF_ANSWERS) if latency else ("a training step", OF_STEPS)
    refuse_others(context, what, read)

    if latency:
        from bertc.lab.bench.cases import read_choices

        cases = read_choices(runtime, precision, threads, batch, length)
        _time_answers(networks, set or [], cases, seconds, json=json)
        return
    from bertc.lab.bench.run import bench as run

    programs = [resolve(network, set or ()) for network in networks]
    report = run(*programs, against=against, rounds=rounds, compiled=compile)
    say(report.as_json() if json else report.summary())


def _time_answers(
    networks: list[str], set: list[str], cases: "Choices", seconds: float, *, json: bool
) -> None:
    from bertc.api import resolve
    from bertc.lab.bench.latency import latencies, of_folder, of_spec

    subjects = [
        of_folder(Path(name)) if is_folder(name) else of_spec(resolve(name, set), name)
        for name in networks
    ]
    table = latencies(subjects, cases, seconds=seconds)
    say(table.as_json() if json else table.as_table())


def _calibrate(threads: str) -> None:
    """Measure this CPU with the numbers of threads of a list, and write that to the cache."""
    from bertc.base.storage.durable import make_folder, replace
    from bertc.cost.machines.device import calibration_path
    from bertc.cost.units import bytes_text, flops_text
    from bertc.lab.bench.cases import read_threads
    from bertc.run.calibrate import Sizes, measure_rates

    say("measuring; other work on this machine makes the figures worse ...", err=True)
    calibration = measure_rates(read_threads(threads), Sizes())
    path = calibration_path()
    make_folder(path.parent)
    replace(path, calibration.as_json().encode(), elsewhere="set BERTC_CACHE to another folder")
    for count, rates in calibration.threads.items():
        best = {name: max(p.rate for p in points) for name, points in rates.products.items()}
        products = ", ".join(f"{name} {flops_text(rate)}/s" for name, rate in best.items())
        moved = f"{bytes_text(rates.bandwidth_bytes)}/s moved"
        say(f"{count} thread{'s' * (count > 1)}: products {products}, {moved}")
    say(f"kept in {path}; bertc estimate --device cpu uses it from now on")
