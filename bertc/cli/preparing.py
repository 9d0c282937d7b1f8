"""Commands that prepare text ahead of training, and print batch scripts for Slurm."""

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from bertc.base.cores import available_cores
from bertc.base.diagnostics import SpecError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import cache_folder
from bertc.base.storage.plain_file import read_text
from bertc.cli import options as cli
from bertc.cli.options import app, option, refuse_others, say, spec_words

OptionsArgument = Annotated[
    list[str] | None, Argument(help="options of sbatch, after --", metavar="-- OPTIONS")
]
MOST_BYTES = 2**20
CORES = 4
"""Cores a GPU, for the threads of its process."""
LARGEST_ARRAY = 1000
"""The largest number of a job's array unless MaxArraySize (slurm.conf), one more, is set."""


@app.command()
def prepare(
    to: str = option(..., "a folder, or an address: s3://bucket/corpus"),
    spec: str | None = cli.spec_argument(
        None, "a spec that names the text, the vocabulary and the rows"
    ),
    set: cli.SetOption = None,
    part: str | None = option(None, "one share of the parts: 17/400, on whatever machine"),
    workers: int | None = option(None, "processes; by default one for each core", min=1),
    skip_damaged: bool = option(
        False, "leave out what cannot be read, and list it", "--skip-damaged"
    ),
    status: bool = option(False, "list what is done and missing", "--status"),
    finish: bool = option(False, "write the manifest when all parts are there", "--finish"),
) -> None:
    """Make text tokens ahead of training, part by part, for data=prepared("ADDRESS").

    Killed, repeated or started twice, the result is the same. Shares of the parts (--part) may be
    prepared on several machines at once; --finish ends it.
    """
    from bertc.run import preparing

    if status or finish:
        if spec or set or part or workers or skip_damaged or (status and finish):
            raise UsageError("--status and --finish go with --to alone")
        if finish:
            say(preparing.finish_text(to))
            return
        text, complete = preparing.standing(to)
        say(text)
        raise typer.Exit(not complete)
    if spec is None:
        raise UsageError("which text? bertc prepare SPEC --to ADDRESS")
    from bertc.api import resolve

    command, share = shlex.join(["bertc", "prepare", *spec_words(spec, set)]), _share(part)
    program = resolve(spec, set or (), sparing=True)  # its text is read to prepare it
    ways = (workers or available_cores(), command, skip_damaged)
    say(preparing.prepare_text(program, to, cache_folder(), share, *ways))


def _share(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    if not (match := re.fullmatch(r"(\d+)/0*([1-9]\d*)", text)):
        raise UsageError(f"--part {text} is no share", "--part 17/400 is share 17 of 400")
    nth, parts = map(int, match.groups())
    if not 1 <= nth <= parts:
        shares = f"--part 1/{parts} up to --part {parts}/{parts}"
        raise UsageError(f"--part {text}: of {parts} shares there is no number {nth}", shares)
    return nth, parts


@app.command()
def slurm(
    context: typer.Context,
    spec: cli.SpecArgument,
    options: OptionsArgument = None,
    nodes: int = option(1, "machines to train on", min=1),
    gpus: int = option(8, "GPUs of each machine", min=1),
    to: str | None = option(None, "prepare: a folder of all nodes, or an address: s3://bucket/x"),
    parts: int = option(1, "prepare: jobs, a share each, below MaxArraySize", min=1),
    set: cli.SetOption = None,
    out: Path | None = cli.file_to_write(
        None, "the file to write, instead of stdout", "-o", "--out"
    ),
) -> None:
    """Print a script that trains a spec on machines, or with --to prepares its text by a job array.

    The job that trains, in runs/NAME, saves and queues again when it is preempted, out of time, or
    loses a machine. Of those that prepare, the first learns the vocabulary, then the others run at
    once, and a last one writes the manifest; submitted again they make what is missing.
    """
    what, these = ("training", ("nodes", "gpus")) if to is None else ("--to", ("to", "parts"))
    refuse_others(context, what, ("set", "out", *these))
    if to is None:
        script, submit = _training(spec, set, options or [], nodes, gpus), "sbatch"
    else:
        script, submit = _preparing(spec, set, options or [], to, parts), "bash"
    if out is None:
        say(script, nl=False)
        return
    durable.replace(out, script.encode(), elsewhere="name another file with -o")
    say(f"{submit} {shlex.quote(str(out))} submits it")


def _training(spec: str, set: list[str] | None, options: list[str], nodes: int, gpus: int) -> str:
    """The script of a job that trains."""
    from bertc.api import resolve
    from bertc.cost.planning.world import World, refuse_too_many
    from bertc.lang.files import find_spec

    try:
        resolved = resolve(spec, set or [], sparing=True)
        refuse_too_many(resolved, World(nodes * gpus, gpus))
        name = resolved.name
    except SpecError as error:
        if any(mistake.code != "E307" for mistake in error.diagnostics):
            raise
        name = find_spec(spec).title
        say(f"remark: written without the data, which cannot be read here: {error}", err=True)
    if wrong := [option for option in options if "\n" in option]:
        raise UsageError(f"an option of sbatch is one line, not {wrong[0]!r}")
    return read_text(Path(__file__).with_name("train.sbatch"), MOST_BYTES).format(
        nodes=nodes,
        gpus=gpus,
        cores=gpus * CORES,
        name=shlex.quote(name),
        options=f"#SBATCH {shlex.join(options)}\n" if options else "",
        run=shlex.quote(f"runs/{name}"),
        spec=shlex.join(spec_words(spec, set)),
    )


def _preparing(spec: str, set: list[str] | None, options: list[str], to: str, parts: int) -> str:
    """The script that submits a job array, which prepares a text in shares."""
    from bertc.api import resolve
    from bertc.text.prepared.making import only_text

    only_text(resolve(spec, set or (), sparing=True))
    if taken := [o for o in options if o.startswith(("-a", "--array", "--dep", "-d"))]:
        raise UsageError(f"{taken[0]} is set by the script itself", "leave it out")
    share = shlex.join(["bertc", "prepare", *spec_words(spec, set), "--to", to, "--part"])
    if parts > LARGEST_ARRAY:
        say(f"remark: Slurm refuses arrays up to {parts} unless MaxArraySize is above it", err=True)
    submit = shlex.join(["sbatch", "--parsable", "--job-name=bertc-prepare", *options])
    jobs = [("", f"{share} 1/{parts}")]
    if parts > 1:
        jobs.append((f" --array=2-{parts}", f'{share} "$SLURM_ARRAY_TASK_ID"/{parts}'))
    jobs.append(("", shlex.join(["bertc", "prepare", "--to", to, "--finish"])))
    lines = ["#!/bin/bash", "# bash submits the jobs, from the folder of the spec", "set -eu"]
    after = ""
    for job, command in jobs:
        lines.append(f"job=$({submit}{job}{after} --wrap={shlex.quote(command)})")
        after = ' --kill-on-invalid-dep=yes --dependency=afterok:"${job%%;*}"'
    return "\n".join([*lines, 'echo "submitted; the last job is $job"']) + "\n"
