"""Commands that measure: training steps, answers to texts, and this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from bertc.base.diagnostics import UsageError
from bertc.base.storage.paths import is_folder
from bertc.cli.options import (
    JsonOption,
    SetOption,
    SpecsArgument,
    app,
    file_to_write,
    refuse_others,
    say,
)

OF_STEPS = ("set", "against", "rounds", "compile", "json", "out")
OF_ANSWERS = (
    *("latency", "set", "length", "batch", "runtime", "precision", "threads", "seconds"),
    *("predict", "json"),
)


@app.command()
def bench(
    context: typer.Context,
    networks: SpecsArgument,
    set: SetOption = None,
    against: Annotated[str | None, Option(help="also time another system: transformers")] = None,
    rounds: Annotated[int, Option(min=1, max=1000, help="timed turns of each system")] = 7,
    compile: Annotated[bool, Option("--compile", help="time compiled forms too")] = False,
    out: Annotated[Path | None, file_to_write("a file for the JSON")] = None,
    latency: Annotated[
        bool, Option("--latency", help="time answers of run folders and specs instead")
    ] = False,
    length: Annotated[str, Option(help="latency: tokens of a text, 32,128")] = "128",
    batch: Annotated[str, Option(help="latency: texts at once, 1,8")] = "1",
    runtime: Annotated[str, Option(help="latency: torch, onnx, or torch,onnx")] = "torch",
    precision: Annotated[str, Option(help="latency: fp32, bf16 (torch), int8 (onnx)")] = ("fp32"),
    threads: Annotated[str, Option(help="latency: threads; all is one per core")] = "1,all",
    seconds: Annotated[
        float, Option(min=0.1, max=36_000, help="latency: time for all turns, at most")
    ] = 60.0,
    predict: Annotated[bool, Option("--predict", help="latency: estimate; nothing runs")] = False,
    json: JsonOption = False,
) -> None:
    """Time the training step of a spec on random tokens, or with --latency answers to texts.

    Systems and networks are timed in turns. Answers are timed on this CPU, for runs and specs side
    by side, specs with random weights.
    """
    what, options = ("answers", OF_ANSWERS) if latency else ("a training step", OF_STEPS)
    refuse_others(context, what, options)
    if latency:
        choices = (runtime, precision, threads, batch, length)
        _time_answers(networks, set or (), choices, seconds, predict, json)
        return
    _time_step(networks, set or (), against, rounds, compile, json, out)


def _time_step(
    specs: Sequence[str],
    overrides: Sequence[str],
    against: str | None,
    rounds: int,
    compiled: bool,
    json: bool,
    out: Path | None,
) -> None:
    if len(specs) > 1:
        raise UsageError("one training step is timed", help=f"bertc bench {specs[0]!r}")
    from bertc.api import resolve
    from bertc.lab.bench.run import bench as run

    resolved = resolve(specs[0], overrides)
    report = run(resolved, against=against, rounds=rounds, compiled=compiled)
    say(report.as_json() if json else report.summary())
    if out:
        report.write(out)


def _time_answers(
    networks: Sequence[str],
    overrides: Sequence[str],
    choices: tuple[str, str, str, str, str],
    seconds: float,
    predict: bool,
    json: bool,
) -> None:
    from bertc.api import resolve
    from bertc.lab.bench.latencies import latencies, of_folder, of_spec
    from bertc.lab.latency.cases import chosen

    subjects = [
        of_folder(Path(name)) if is_folder(name) else of_spec(resolve(name, overrides), name)
        for name in networks
    ]
    table = latencies(subjects, chosen(*choices), seconds=seconds, predict=predict)
    say(table.as_json() if json else table.as_table())


@app.command()
def calibrate(
    threads: Annotated[
        list[int] | None,
        Option(min=1, max=1024, help="threads a process (repeatable) [default: 1, all cores]"),
    ] = None,
) -> None:
    """Measure this CPU in less than a minute, so that estimated times fit it."""
    from bertc.base.cores import available_cores
    from bertc.base.storage.durable import make_folder, replace
    from bertc.cost.machines.calibration import calibration_path
    from bertc.cost.units import bytes_text, flops_text
    from bertc.run.calibrate import Sizes, calibrated

    counts = sorted(set(threads or (1, available_cores())))
    say("measuring; other work on this machine makes the figures worse ...", err=True)
    calibration = calibrated(tuple(counts), Sizes())
    path = calibration_path()
    make_folder(path.parent)
    replace(path, calibration.as_json().encode(), elsewhere="set BERTC_CACHE to another folder")
    for count, rates in calibration.threads.items():
        best = {name: max(p.rate for p in points) for name, points in rates.products.items()}
        products = ", ".join(f"{name} {flops_text(rate)}/s" for name, rate in best.items())
        moved = f"{bytes_text(rates.bandwidth_bytes)}/s moved"
        say(f"{count} thread{'s' * (count > 1)}: products {products}, {moved}")
    say(f"kept in {path}; bertc estimate --device cpu uses it from now on")
