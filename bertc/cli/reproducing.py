"""Commands of the laboratory: published tables, searches over ranges, and what measures."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bertc.base.diagnostics import UsageError
from bertc.base.storage.paths import is_folder
from bertc.cli import options
from bertc.cli.options import SPECS, app, argument, option, refuse_others, say, spec_argument


@app.command()
def reproduce(
    table: str = argument("", "a shipped table, or a file of your own; without it they are listed"),
    scale: str = option("", "full: the paper's sizes; base, small; tiny: minutes a row"),
    data: list[str] | None = option(None, "folder of the files it needs, or NAME=PATH of one"),
    seeds: int = option(1, "number of seeds a row", min=1, max=1000),
    out: Path | None = option(None, "folder of the runs [default: runs/tables/TABLE]"),
    estimate: bool = option(False, "show what each row costs; trains nothing", "--estimate"),
    show: bool = option(False, "show what came out so far; trains nothing", "--show"),
    device: str = option("h200", "of estimates"),
    json: options.JsonOption = False,
) -> None:
    """Train the rows of a published table, and show them next to the paper's figures.

    The same command goes on where it was killed, and shares the rows with other processes that run
    it on the same folder.
    """
    from bertc.base.diagnostics import SpecError
    from bertc.lab.reproduce import reproduce as tables
    from bertc.lab.reproduce.reading import listing, read_table
    from bertc.lab.reproduce.table import PAPERS

    if show and estimate:
        raise UsageError("--show has results, --estimate what they cost", help="one of them")
    if show and not table:
        raise UsageError("--show needs a table", help="bertc reproduce TABLE --show")
    if not table:
        say(listing(json))
        return
    if estimate:
        costs = tables.estimate_table(table, scale or PAPERS, data or (), out, device)
        say(costs.as_json() if json else costs.as_table())
        raise typer.Exit(0 if costs.is_sound else SpecError.exit_code)
    failures = list[Exception]()
    if show:
        shown = tables.show_table(table, scale, out)
    else:
        published, aside = read_table(table), partial(say, err=True)
        shown, failures = tables.train_table(published, scale, data or (), seeds, out, aside)
    _end(shown.as_json() if json else shown.as_text(), failures)


@app.command()
def glue(
    model: Path = argument(..., "a run, or a Hugging Face folder"),
    table: str = option("glue", "glue; babylm: the seven tasks of BabyLM, from its files"),
    tasks: list[str] | None = option(None, "some of the tasks: rte,mrpc"),
    seeds: int = option(3, "number of seeds a task", min=1, max=1000),
    data: list[str] | None = option(None, "folder of tasks [default: data], or TASK=PATH of one"),
    set: options.SetOption = None,
    out: Path | None = option(None, "folder of the runs [default: runs/glue/MODEL]"),
    json: options.JsonOption = False,
) -> None:
    """Fine-tune a model on all tasks of GLUE by one setting, each task and seed in a run folder.

    The setting is that of the table, for GLUE cramming's: 5 epochs, batch 16, rate 4e-5; --set
    changes it. The same command goes on where it was killed, and shares the runs with others.
    """
    from bertc.lab.reproduce.glue import glue as fine_tune

    names = [name for words in tasks or () for name in words.split(",") if name]
    aside = partial(say, err=True)
    scores, failures = fine_tune(table, model, names, seeds, data or (), set or (), out, aside)
    _end(scores.as_json() if json else scores.as_text(), failures)


def _end(text: str, failures: Sequence[Exception]) -> None:
    """Print the results, and exit with the code of the first failure."""
    from bertc.base.failures import exit_code
    from bertc.cli.options import in_color

    codes = [exit_code(error, in_color(sys.stderr)) for error in failures]
    say(text)
    if codes:
        raise typer.Exit(codes[0])


@app.command()
def forecast(
    spec: str = argument(..., "a spec with one program, whose text is held out in part"),
    set: options.SetOption = None,
    time: str | None = option(None, "time of the ladder: 20min [default: a tenth of the run's]"),
    out: Path | None = option(None, "folder of the ladder [default: runs/SPEC-ladder]"),
    law: Path | None = option(None, "the law.json of another ladder on the same text"),
    seal: Path | None = option(None, "folder of the run to be, which gets the forecast"),
    device: str = option("cpu", "the machine that trains, as in estimate"),
    json: options.JsonOption = False,
) -> None:
    """Train a ladder of small runs, and say what loss the spec is expected to reach.

    The law of the ladder is written to law.json in its folder. The same command goes on with a
    ladder that was stopped or killed.
    """
    from bertc.lab.fit.candidate import budget
    from bertc.lab.forecast.forecasting import forecast as run

    if law and (time or out):
        raise UsageError("--law is of a ladder that is there", help="leave --time and --out out")
    seconds = budget("time", time).most if time else None
    say_progress = partial(say, err=True)
    law_of_ladder, expected = run(spec, set or (), law, out, seconds, device, seal, say_progress)
    say(law_of_ladder.as_json() if json else f"{law_of_ladder.as_table()}\n\nexpected: {expected}")


@app.command()
def sweep(
    spec: str = argument(
        ..., "a spec with ranges: optimizer=adamw({1e-5..1e-3:log}) layers={2..12}"
    ),
    trials: int = option(20, "trials in all, those of before included", min=1),
    for_: str = option("loss", "the score: dev.accuracy, mlm, as runs --results has it", "--for"),
    set: options.SetOption = None,
    out: Path | None = option(None, "folder of the search [default: runs/NAME]"),
    budget: str | None = option(None, "most time or FLOPs of all trials together: 2h, 1e16"),
    prune: str | None = option(None, "halving: stop bad trials at evaluations 1, 2, 4, 8, ..."),
    json: options.JsonOption = False,
) -> None:
    """Search the ranges and lists of a spec for the best score, each trial in a run folder.

    The same command goes on with a search that was stopped or killed, and joins one that another
    process works at. The best trial is printed as a spec; all else goes to stderr.
    """
    from bertc.lab.search.sweeping import sweep as run

    outcome, best = run(spec, set or (), for_, trials, out, budget, prune, partial(say, err=True))
    if json:
        say(outcome.as_json())
        return
    say(outcome.as_table(), err=True)
    say(best, nl=False)


if TYPE_CHECKING:
    from bertc.lab.bench.cases import Choices

OF_STEPS = ("set", "json", "against", "rounds", "compile")
OF_ANSWERS = (
    "latency", "set", "json", "length", "batch", "runtime", "precision", "threads", "seconds",
)  # fmt: skip


@app.command()
def bench(
    context: typer.Context,
    networks: list[str] | None = spec_argument(None, SPECS, callback=options.refuse_unquoted),
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
    calibrate: bool = option(False, "measure this CPU instead, for estimates", "--calibrate"),
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
