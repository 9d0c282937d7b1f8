"""The command that times answers to texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertc.commands.options import JsonOption, SetOption, app, picture_to_write, say
from bertc.diagnostics import UsageError
from bertc.storage.paths import is_folder

if TYPE_CHECKING:
    from bertc.ir.program.resolved import Resolved

TEXTS = "texts"
"""The length that stands for the mean of a task's own texts."""


@app.command()
def latency(
    networks: Annotated[
        list[str], typer.Argument(help="run folders, and specs as in estimate (random weights)")
    ],
    set: SetOption = None,
    length: Annotated[
        str, typer.Option(help="tokens of a text: 32,128; texts: those of the task, in the mean")
    ] = "128",
    batch: Annotated[str, typer.Option(help="texts at once: 1,8")] = "1",
    runtime: Annotated[str, typer.Option(help="torch, onnx, or both: torch,onnx")] = "torch",
    precision: Annotated[str, typer.Option(help="fp32, bf16 (torch), int8 (onnx)")] = "fp32",
    threads: Annotated[str, typer.Option(help="numbers of threads; all is one per core")] = "1,all",
    seconds: Annotated[
        float, typer.Option(min=0.1, max=36_000, help="time for all timed turns together, at most")
    ] = 60.0,
    predict: Annotated[
        bool, typer.Option("--predict", help="estimate from the operations; nothing runs")
    ] = False,
    json: JsonOption = False,
    plot: Annotated[Path | None, picture_to_write("scores against milliseconds")] = None,
) -> None:
    """Time the answer to a text on this CPU, for runs and specs side by side."""
    from bertc.api import resolve
    from bertc.bench.latencies import latencies, of_folder, of_spec
    from bertc.estimate.latency.cases import chosen

    subjects = [
        of_folder(Path(name)) if is_folder(name) else of_spec(resolve(name, set or ()), name)
        for name in networks
    ]
    if plot and not any(subject.folder for subject in subjects):
        raise UsageError(
            "--plot sets scores against milliseconds, and specs have none", help="name run folders"
        )
    if TEXTS in length:
        length = length.replace(TEXTS, str(_mean_length([each.resolved for each in subjects])))
    choices = chosen(runtime, precision, threads, batch, length)
    table = latencies(subjects, choices, seconds=seconds, predict=predict)
    say(table.as_json() if json else table.as_table())
    if plot:
        from bertc.runs.plot import plot_latencies

        plot_latencies(table.points(), plot)


def _mean_length(programs: "list[Resolved]") -> int:
    """The mean number of tokens of the training texts of the first task among some programs."""
    from bertc.external import row_lengths

    of_tasks = [program for program in programs if program.stages[-1].tasks]
    if not of_tasks:
        raise UsageError(
            f"--length {TEXTS}: none of these networks has a task", help="--length 32,128"
        )
    (lengths,) = row_lengths(of_tasks[:1])
    return int(lengths[-1])
