"""The command that times answers to texts."""

from pathlib import Path
from typing import Annotated

import typer

from bertc.commands.options import JsonOption, SetOption, app, file_to_write
from bertc.storage.paths import is_folder


@app.command()
def latency(
    networks: Annotated[
        list[str], typer.Argument(help="run folders, and specs as in estimate (random weights)")
    ],
    set: SetOption = None,
    length: Annotated[str, typer.Option(help="tokens of a text: 32,128")] = "128",
    batch: Annotated[str, typer.Option(help="texts at once: 1,8")] = "1",
    runtime: Annotated[str, typer.Option(help="torch, onnx, or both: torch,onnx")] = "torch",
    precision: Annotated[str, typer.Option(help="fp32, bf16 (torch), int8 (onnx)")] = "fp32",
    threads: Annotated[str, typer.Option(help="numbers of threads; all is one per core")] = "1,all",
    seconds: Annotated[
        float, typer.Option(min=0.1, max=36_000, help="time for all timed turns together")
    ] = 60.0,
    predict: Annotated[
        bool, typer.Option("--predict", help="estimate from the operations; nothing runs")
    ] = False,
    json: JsonOption = False,
    plot: Annotated[Path | None, file_to_write("a PNG file: scores against milliseconds")] = None,
) -> None:
    """Time the answer to a text on this CPU, for runs and specs side by side."""
    from bertc.api import resolve
    from bertc.bench.latencies import latencies, of_folder, of_spec
    from bertc.estimate.latency.cases import chosen

    choices = chosen(runtime, precision, threads, batch, length)
    subjects = [
        of_folder(Path(name)) if is_folder(name) else of_spec(resolve(name, set or ()))
        for name in networks
    ]
    table = latencies(subjects, choices, seconds=seconds, predict=predict)
    typer.echo(table.as_json() if json else table.as_table())
    if plot:
        from bertc.runs.plot import plot_latencies

        plot_latencies(table.points(), plot)
