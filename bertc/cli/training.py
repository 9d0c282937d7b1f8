"""Commands on runs: training them, and using trained models."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bertc.base.diagnostics import BertcError, Diagnostics, MissingInputError, UsageError
from bertc.cli.options import SetOption, app, in_color, option, say, spec_argument, spec_words

if TYPE_CHECKING:
    from bertc.ir.program.resolved import Resolved


@app.command()
def train(
    spec: str = spec_argument("", "a spec; with --resume also a run folder, or nothing with --out"),
    set: SetOption = None,
    out: Path | None = option(None, "run folder [default: runs/NAME]"),
    resume: bool = option(False, "resume a run that stopped", "--resume"),
    nproc: int = option(1, "processes on this machine, one per GPU", min=1),
) -> None:
    """Train a spec into a run folder, or each point of a grid into one; torchrun may start it."""
    from bertc.api import points
    from bertc.lang.files import spec_text
    from bertc.machine.signals import end_with_launcher

    end_with_launcher()
    set = set or []
    spec = spec or (str(out) if resume and out else "")
    programs: tuple[Resolved, ...]
    if run := _run_to_resume(spec, out, resume):
        from bertc.run.records.folder import RunFolder
        from bertc.run.records.longer import with_settings

        out, programs = run, (with_settings(RunFolder(run).read_resolved(), set),)
    else:
        findings = Diagnostics()
        programs = points(spec, set, findings)
        _remark(findings, nproc)
    if len(programs) > 1:
        if nproc > 1:
            help = "leave --nproc out, or train its points by themselves, with --set"
            raise UsageError(f"a grid of {len(programs)} points is trained in one process", help)
        raise typer.Exit(_train_grid(programs, spec, set, out, resume))
    (resolved,) = programs
    folder = out or Path("runs") / resolved.name
    if nproc > 1:
        command = [*("train", *spec_words(spec, set), "--out", str(folder)), *["--resume"] * resume]
        raise typer.Exit(_launch(command, resolved, nproc, folder))
    from bertc.lab.trackers.sink import feeding
    from bertc.machine.process_group import world_here
    from bertc.run.train.loop import train as go

    text = "" if run else spec_text(spec, set)
    report = go(resolved, folder, spec_text=text, resume=resume, tracking=feeding)
    if world_here()[0] == 0:  # the first of several processes
        say(report.summary())


def _launch(command: Sequence[str], resolved: "Resolved", nproc: int, folder: Path) -> int:
    """Train in several processes; returns the exit code."""
    from bertc.base.cores import available_cores
    from bertc.cost.planning.world import World, refuse_too_many
    from bertc.machine.machine import refuse_too_few_devices
    from bertc.run.launch import launch

    refuse_too_few_devices(resolved.run.device, nproc)
    refuse_too_many(resolved, World(nproc, nproc))
    if nproc > (cores := available_cores()):
        say(f"{nproc} processes share {cores} cores: they wait for each other", err=True)
    return launch(command, nproc, folder)


def _remark(findings: Diagnostics, nproc: int) -> None:
    """Print remarks before training, in the first process only."""
    from bertc.base.diagnostics.render import render
    from bertc.machine.process_group import world_here

    if findings.remarks and nproc == 1 and world_here()[0] == 0:
        say(render(findings.remarks, color=in_color(sys.stderr)), err=True, styled=True)


def _run_to_resume(spec: str, out: Path | None, resume: bool) -> Path | None:
    """The run folder that ``spec`` names, if it names one to resume."""
    if not spec:
        raise UsageError("no spec given", help="bertc train SPEC, or bertc train --resume RUN")
    from bertc.base.storage.paths import is_folder, is_taken, shipped_specs
    from bertc.hub.folders import RESOLVED
    from bertc.lang.files import STANDARD_INPUT, find_spec

    folder = Path(spec)
    if spec in shipped_specs():
        return None
    if not is_folder(folder):
        if resume and spec != STANDARD_INPUT:
            try:
                find_spec(spec)
            except MissingInputError:
                there, help = Path("runs") / spec, "bertc runs FOLDER lists the runs in a folder"
                help = f"did you mean {there}?" if is_folder(there) else help
                message = f"there is neither a run nor a spec {spec[:60]}"
                raise MissingInputError(message, help) from None
        return None
    if not resume:
        if is_taken(folder / RESOLVED):
            help = f"bertc train --resume {folder} resumes it"
            raise UsageError(f"{folder} is a run, not a spec", help)
        return None
    if out and out.absolute() != folder.absolute():
        raise UsageError(f"a run is resumed in its own folder, {folder}", help="leave --out out")
    return folder


def _train_grid(
    points: "Sequence[Resolved]", spec: str, set: Sequence[str], out: Path | None, resume: bool
) -> int:
    """Train all points and print their results; returns the exit code of the first that failed."""
    from bertc.base.failures import exit_code
    from bertc.lab.results.compare import results
    from bertc.lab.trackers.sink import feeding
    from bertc.lang.files import find_spec, spec_text
    from bertc.run.train.grid import train_grid

    parent, codes = out or Path("runs") / find_spec(spec).title, list[int]()
    text, aside = spec_text(spec, set), partial(say, err=True)
    for outcome in train_grid(
        points, parent, spec_text=text, resume=resume, say=aside, tracking=feeding
    ):
        if isinstance(outcome, BertcError):
            codes.append(exit_code(outcome, color=in_color(sys.stderr)))
    say(results([parent]).as_table())
    return codes[0] if codes else 0
