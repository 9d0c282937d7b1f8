"""Commands that measure: training steps, answers to texts, and this machine."""

from pathlib import Path

import typer

from bertc.base.storage.paths import is_folder
from bertc.cli.options import JsonOption, SetOption, SpecsArgument, app, file_to_write, option, say

OF_STEPS = ("against", "rounds", "compile", "out")
OF_ANSWERS = ("latency", "length", "batch", "runtime", "precision", "threads", "seconds")


@app.command()
def bench(
    context: typer.Context,
    networks: SpecsArgument,
    set: SetOption = None,
    against: str | None = option(None, "also time another system: transformers"),
    rounds: int = option(7, "timed turns of each system", min=1, max=1000),
    compile: bool = option(False, "time compiled forms too", "--compile"),
    out: Path | None = file_to_write(None, "a file for the JSON"),
    latency: bool = option(False, "time answers of run folders and specs instead", "--latency"),
    length: str = option("128", "latency: tokens of a text, 32,128"),
    batch: str = option("1", "latency: texts at once, 1,8"),
    runtime: str = option("torch", "latency: torch, onnx, or torch,onnx"),
    precision: str = option("fp32", "latency: fp32, bf16 (torch), int8 (onnx)"),
    threads: str = option("1,all", "latency: threads; all is one per core"),
    seconds: float = option(60.0, "latency: time for all turns, at most", min=0.1, max=36_000),
    json: JsonOption = False,
) -> None:
    """Time the training step of specs on random tokens, or with --latency answers to texts.

    Systems and networks are timed in turns. Answers are timed on this CPU, for runs and specs side
    by side, specs with random weights.
    """
    from bertc.api import resolve
    from bertc.cli.options import refuse_others

    what, options = ("answers", OF_ANSWERS) if latency else ("a training step", OF_STEPS)
    refuse_others(context, what, ("set", "json", *options))

    if latency:
        from bertc.lab.bench.cases import read_choices
        from bertc.lab.bench.latency import latencies, of_folder, of_spec

        subjects = [
            of_folder(Path(name)) if is_folder(name) else of_spec(resolve(name, set or ()), name)
            for name in networks
        ]
        cases = read_choices(runtime, precision, threads, batch, length)
        table = latencies(subjects, cases, seconds=seconds)
        say(table.as_json() if json else table.as_table())
        return
    from bertc.lab.bench.run import bench as run

    programs = [resolve(network, set or ()) for network in networks]
    report = run(*programs, against=against, rounds=rounds, compiled=compile)
    say(report.as_json() if json else report.summary())
    if out:
        report.write(out)


@app.command()
def calibrate(
    threads: list[int] | None = option(
        None, "threads a process (repeatable) [default: 1, all cores]", min=1, max=1024
    ),
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
