"""The commands. Each reads its arguments, calls one function and prints its result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bertc.diagnostics import SpecError

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A compiler for text encoders: check, estimate, build and train a spec.",
)

SpecArgument = Annotated[
    str, typer.Argument(help="a file, a shipped spec's name, the text, or - for standard input")
]
SpecsArgument = Annotated[
    list[str], typer.Argument(help="files, shipped names, texts, or - for standard input")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="override a setting: key=value (repeatable)")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
ProfileOption = Annotated[
    Path | None, typer.Option(file_okay=False, help="folder for a profile of a few warm steps")
]
RunArgument = Annotated[Path, typer.Argument(help="a run folder")]


def _say_version(asked: bool) -> None:
    if asked:
        from bertc import __version__

        typer.echo(f"bertc {__version__}")
        raise typer.Exit


@app.callback()
def of_all_commands(
    version: Annotated[
        bool,
        typer.Option("--version", help="print the version", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    """What stands before a command."""


@app.command()
def check(specs: SpecsArgument, set: SetOption = None) -> None:
    """Report every mistake of the specs, files that they name and are not there too.

    The files are not read. Exit 1 if there is a mistake.
    """
    from bertc.api import check as run
    from bertc.diagnostics.render import render

    wrong = False
    for spec in specs:
        try:
            points = run(spec, set or ())
            typer.echo(f"{spec}: fine" + (f", {points} points" * (points > 1)))
        except SpecError as error:
            typer.echo(render(error.diagnostics, color=_color(sys.stdout)))
            wrong = True
    if wrong:
        raise typer.Exit(1)


@app.command()
def explain(code: Annotated[str, typer.Argument(help="the code of a diagnostic: E201")]) -> None:
    """Say more about a diagnostic: what it means, a wrong and a right example."""
    from bertc.diagnostics.codes import explain as text

    typer.echo(text(code))


@app.command()
def fmt(
    files: Annotated[list[Path], typer.Argument(help="spec files; - for standard input")],
    check: Annotated[
        bool, typer.Option("--check", help="change nothing, exit 1 if it would")
    ] = False,
) -> None:
    """Rewrite spec files in canonical form; comments stay."""
    from bertc.syntax.files import format_file

    changed = [file for file in files if format_file(file, write=not check)]
    for file in changed:
        typer.echo(f"{'would change' if check else 'changed'}: {file}", err=True)
    if check and changed:
        raise typer.Exit(1)


@app.command()
def estimate(
    specs: SpecsArgument,
    set: SetOption = None,
    device: Annotated[str, typer.Option(help="h200, h100, a100, cpu, ...")] = "h200",
    convention: Annotated[str, typer.Option(help="FLOPs: exact, electra or 6n")] = "exact",
    world: Annotated[int, typer.Option(min=1, help="devices the run is spread over")] = 1,
    json: JsonOption = False,
) -> None:
    """Say what specs cost: parameters, FLOPs, memory and time. Nothing runs."""
    from bertc.api import points
    from bertc.estimate import as_json, as_table, convention_named
    from bertc.estimate import estimate as run

    counting = convention_named(convention)
    found = [point for spec in specs for point in points(spec, set or ())]
    estimates = [run(point, device, counting, world) for point in found]
    typer.echo(as_json(estimates) if json else as_table(estimates))


@app.command()
def build(
    spec: SpecArgument,
    set: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="folder for the initialised model [default: builds/NAME]")
    ] = None,
    emit: Annotated[
        str | None, typer.Option(help="print tree, program, resolved, weights or module, and stop")
    ] = None,
) -> None:
    """Allocate the model, compile its training step, run one step, write the model folder."""
    if emit is not None:
        from bertc.emit import emit as show

        typer.echo(show(spec, set or (), emit))
        return
    from bertc.api import resolve
    from bertc.train.build import build as run

    typer.echo("compiling the training step; on a CPU this takes about a minute ...", err=True)
    typer.echo(run(resolve(spec, set or ()), out))


@app.command()
def train(
    spec: SpecArgument,
    set: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="run folder [default: runs/NAME]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on where a run stopped")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="everything but training")] = False,
    nproc: Annotated[int, typer.Option(min=1, help="processes on this machine, one a GPU")] = 1,
    profile: ProfileOption = None,
) -> None:
    """Train a spec on its text, into a run folder; under torchrun, as one of its processes."""
    from bertc.api import resolve
    from bertc.syntax.files import spec_text
    from bertc.train.orphan import end_with_launcher

    end_with_launcher()
    resolved = resolve(spec, set or ())
    folder = out or Path("runs") / resolved.name
    if nproc > 1:
        from bertc.passes import World, refuse_too_many
        from bertc.train.launch import launch

        refuse_too_many(resolved, World(nproc, nproc))
        command = _training(spec, set or (), folder, resume, dry_run, profile)
        raise typer.Exit(launch(command, nproc, folder))
    from bertc.train.loop import train as run
    from bertc.train.ranks import world_here

    text = spec_text(spec, set or ())
    report = run(resolved, folder, spec_text=text, resume=resume, dry_run=dry_run, profile=profile)
    if world_here()[0] == 0:
        typer.echo(report.summary())


def _training(
    spec: str,
    overrides: Sequence[str],
    out: Path | None,
    resume: bool,
    dry_run: bool = False,
    profile: Path | None = None,
) -> list[str]:
    """The command line of ``train``, for processes with a standard input of their own."""
    from bertc.syntax.files import STANDARD_INPUT, spec_text

    return [
        *("train", spec_text(spec) if spec == STANDARD_INPUT else spec),
        *(word for override in overrides for word in ("--set", override)),
        *(("--out", str(out)) if out else ()),
        *(["--resume"] if resume else []),
        *(["--dry-run"] if dry_run else []),
        *(("--profile", str(profile)) if profile else ()),
    ]


@app.command()
def slurm(
    spec: SpecArgument,
    set: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="run folder [default: runs/NAME]")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="machines")] = 1,
    gpus_per_node: Annotated[int, typer.Option(min=1, help="GPUs of each")] = 8,
    time: Annotated[str, typer.Option(help="limit of the job, as Slurm writes it")] = "24:00:00",
) -> None:
    """Print a Slurm batch script that trains a spec, and goes on with it when preempted."""
    from bertc.api import resolve
    from bertc.passes import World, refuse_too_many
    from bertc.train.slurm import script

    resolved = resolve(spec, set or ())
    refuse_too_many(resolved, World(nodes * gpus_per_node, gpus_per_node))
    command = _training(spec, set or (), out, resume=True)
    typer.echo(script(resolved.name, command, nodes, gpus_per_node, time), nl=False)


@app.command()
def bench(
    spec: SpecArgument,
    set: SetOption = None,
    against: Annotated[
        str | None, typer.Option(help="time another system beside it: transformers")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda [default: the spec's]")] = (
        None
    ),
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="turns of each system")] = 7,
    compile: Annotated[bool, typer.Option("--compile", help="time compiled forms too")] = False,
    profile: ProfileOption = None,
    json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="a file for the JSON")] = None,
) -> None:
    """Time the training step of a spec on random tokens, beside other systems in turns."""
    from bertc.api import resolve
    from bertc.bench import bench as run

    overrides = [*(set or ()), *([f"device={device}"] if device else [])]
    report = run(
        resolve(spec, overrides), against=against, rounds=rounds, compiled=compile, profile=profile
    )
    if out:
        report.write(out)
    typer.echo(report.as_json() if json else report.summary())


@app.command("eval")
def evaluate(
    run: RunArgument,
    seq: Annotated[int, typer.Option(min=0, help="tokens a row of a stream [0: as trained]")] = 0,
    memory: Annotated[
        int | None, typer.Option(min=0, help="tokens remembered [default: as trained]")
    ] = None,
    clamp: Annotated[int, typer.Option(min=0, help="largest distance told apart")] = 0,
    same_length: Annotated[
        bool, typer.Option("--same-length", help="every token sees as many as are remembered")
    ] = False,
    sliding: Annotated[
        int, typer.Option(min=0, help="tell each token from a window of its own, of so many")
    ] = 0,
    examples: Annotated[int, typer.Option(min=0, help="held-out rows [0: as trained]")] = 0,
    task: Annotated[str, typer.Option(help="by its name, or with files of its own")] = "",
    json: JsonOption = False,
) -> None:
    """Evaluate the newest good checkpoint of a run on its held-out text."""
    from bertc.train.evaluate import evaluate_run
    from bertc.train.manner import Manner

    manner = Manner(seq, memory, clamp, same_length, sliding, examples)
    report = evaluate_run(run, manner, task=task)
    typer.echo(report.as_json() if json else report.summary())


@app.command()
def fill(
    run: RunArgument,
    text: Annotated[str, typer.Argument(help="a text with [MASK] in it; for clm its beginning")],
    top: Annotated[int, typer.Option(min=1, max=100, help="candidates for each mask")] = 5,
    language: Annotated[str, typer.Option(help="that of the text, for models told it")] = "",
    json: JsonOption = False,
) -> None:
    """Let a trained model fill in the masks of a text, go on with it, or judge its tokens."""
    from bertc.train.fill import fill as answer

    report = answer(run, text, top, language)
    typer.echo(report.as_json() if json else report.summary())


@app.command()
def predict(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="rows in the layout of the task")],
    task: Annotated[str, typer.Option(help="by its name, or with columns of its own")] = "",
    official: Annotated[
        Path | None, typer.Option(help="a folder for the files that GLUE or SQuAD takes")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="rows at once, at most")] = 256,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Let a fine-tuned model answer the rows of a file, a JSON object a row."""
    from bertc.train.predict import predict as run_on
    from bertc.train.predict import write_files

    found = run_on(run, file, task, batch, device)
    if official:
        write_files(found.files(), official)
    else:
        for line in found.lines():
            typer.echo(line)
    typer.echo(found.summary(), err=True)


@app.command("show-batch")
def show_batch(
    spec: SpecArgument,
    set: SetOption = None,
    examples: Annotated[int, typer.Option(min=1, max=64, help="how many")] = 3,
) -> None:
    """Print examples as the model will see them: masks, labels, segments."""
    from bertc.api import resolve
    from bertc.train.preview import preview

    typer.echo(preview(resolve(spec, set or ()), examples, color=_color(sys.stdout)))


@app.command("export")
def export_(
    run: RunArgument, to: Annotated[Path, typer.Option(help="the folder to write")]
) -> None:
    """Write a run's model as a Hugging Face folder, or refuse, naming what stands in the way."""
    from bertc.interop import export_run

    typer.echo(export_run(run, to).summary())


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="a Hugging Face folder: BERT, RoBERTa, ALBERT")],
    out: Annotated[Path, typer.Option(help="the run folder to write")],
) -> None:
    """Read a Hugging Face folder into a run folder."""
    from bertc.interop import import_run

    typer.echo(import_run(folder, out).summary())


def main() -> None:
    """Run a command; every failure becomes a message and an exit code of the table."""
    from bertc.failures import exit_code

    try:
        code = app(standalone_mode=False)  # of an Exit; None when a command just ends
    except BaseException as error:  # the one place where nothing may pass
        code = exit_code(error, color=_color(sys.stderr))
    sys.exit(code)


def _color(stream: object) -> bool:
    import os

    return bool(getattr(stream, "isatty", bool)()) and "NO_COLOR" not in os.environ


if __name__ == "__main__":
    main()
