"""Commands on specs: checking, formatting, estimating and building them, preparing their text."""

import re
import shlex
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NoReturn

import typer

from bertc.base.cores import available_cores
from bertc.base.diagnostics import Diagnostics, SpecError, UsageError
from bertc.base.storage.paths import cache_folder, is_folder
from bertc.cli import options
from bertc.cli.options import app, argument, in_color, option, refuse_others, say, spec_argument

COUNTED_AS_FULL = (
    "Rows of a task are counted as full: their mean length is known with its files and a\n"
    'vocabulary, as vocab="vocab.txt" or init="FOLDER".'
)


@app.command()
def check(specs: options.SpecsArgument, set: options.SetOption = None) -> None:
    """Report every mistake of the specs, missing files included.

    Of files those of tasks, the beginnings of those of text (16 MiB in all), and the configuration
    of init are read. Exit 1 if there is a mistake in any spec, or a file of it is not there or does
    not fit; a remark is no mistake.
    """
    from bertc.api import check as run
    from bertc.base.diagnostics import DataError, MissingInputError, UnsafeError
    from bertc.base.diagnostics.render import render

    wrong = False
    for spec in specs:
        findings = Diagnostics()
        try:
            points = run(spec, set or (), findings)
            say(f"{spec}: fine" + (f", {points} points" * (points > 1)))
            if findings.remarks:
                say(render(findings.remarks, color=in_color(sys.stdout)), styled=True)
        except SpecError as error:
            say(render(error.diagnostics, color=in_color(sys.stdout)), styled=True)
            wrong = True
        except (DataError, MissingInputError, UnsafeError) as error:
            help = f"\nhelp: {error.help}" * bool(error.help)
            say(f"error: {error.message}\n  --> {spec}{help}")
            wrong = True
    if wrong:
        raise typer.Exit(1)


@app.command()
def explain(code: str = argument("", "a code, E201, or how codes begin: E2")) -> None:
    """Explain a diagnostic: its meaning, a wrong and a right example; or list the codes."""
    from bertc.base.diagnostics.diagnostic import explain as text

    say(text(code))


@app.command()
def fmt(
    files: list[Path] = argument(..., "spec files; - for standard input"),
    check: bool = option(False, "change nothing; exit 1 if a file would change", "--check"),
) -> None:
    """Rewrite spec files in canonical form; comments stay."""
    from bertc.lang.files import format_file

    changed = [file for file in files if format_file(file, write=not check)]
    for file in changed:
        say(f"{'would change' if check else 'changed'}: {file}", err=True)
    if check and changed:
        raise typer.Exit(1)


@app.command()
def estimate(
    context: typer.Context,
    specs: options.SpecsArgument,
    set: options.SetOption = None,
    device: str = option("h200", "a100, cpu, ..., or NAME,bf16=312,memory=79, ..."),
    convention: str = option("exact", "FLOPs: exact, electra or 6n"),
    world: int = option(1, "number of devices of the run", min=1),
    memory: str | None = option(None, "memory that micro-batches are planned for: 16GiB"),
    law: Path | None = option(None, "law.json of bertc forecast: the loss to expect"),
    where: bool = option(False, "time and memory of a step by part", "--where"),
    diff: bool = option(False, "of two: the share of each setting in the difference", "--diff"),
    json: options.JsonOption = False,
) -> None:
    """Estimate the cost of specs: parameters, FLOPs, memory and time. Nothing runs.

    With --diff exit 1 if any setting differs.
    """
    if diff:
        refuse_others(context, "a difference", ("diff", "set", "device", "json"))
        _show_difference(specs, set or (), device, json)
    from bertc.api import points
    from bertc.check.facts.texts import add_texts, full_rows, row_lengths
    from bertc.cost import as_json, as_table, convention_named, estimate as run, where_table

    counting = convention_named(convention)
    programs = [point for spec in specs for point in points(spec, set or ())]
    known = [*zip(programs, row_lengths(programs), strict=True)]
    most = _most_bytes(memory)
    estimates = [run(point, device, counting, world, lengths, most) for point, lengths in known]
    estimates = add_texts(estimates, programs)
    if law:
        from bertc.lab.forecast.sealed import add_losses

        estimates = add_losses(law, estimates, programs)
    if json:
        say(as_json(estimates, where=where))
        return
    say(where_table(estimates) if where else as_table(estimates))
    if any(full_rows(*rows) for rows in known):
        say(COUNTED_AS_FULL)
    source = context.get_parameter_source("device")
    if source is not None and source.name == "DEFAULT":
        say(f"An {device.upper()} is assumed: name another device with --device cpu, a100, ...")


def _most_bytes(memory: str | None) -> float:
    if memory is None:
        return inf
    from bertc.lab.fit.candidate import budget

    return budget("memory", memory).most


def _show_difference(
    specs: Sequence[str], overrides: Sequence[str], device: str, json: bool
) -> NoReturn:
    from bertc.lab.results.diff import diff

    if len(specs) != 2:
        raise UsageError(f"--diff is of two specs, not {len(specs)}", help="--diff A B")
    difference = diff(specs[0], specs[1], overrides, device)
    say(difference.as_json() if json else difference.as_table())
    raise typer.Exit(1 if difference.lines else 0)


@app.command("fit")
def fit_(
    spec: str = spec_argument(..., "a spec with free settings: layers=? hidden={256, 512}"),
    set: options.SetOption = None,
    params: str | None = option(None, "most parameters, heads included: 14M"),
    flops: str | None = option(None, "most FLOPs of training: 1e18, 3E"),
    time: str | None = option(None, "longest training: 90min, 8h, 2d"),
    memory: str | None = option(None, "a device's, for which micro-batches are planned: 16GiB"),
    law: Path | None = option(None, "law.json of bertc forecast: the lowest loss is taken"),
    loss: float = option(0.0, "with --law: the least time to this loss", min=0),
    device: str = option("h200", "as in estimate"),
    world: int = option(1, "number of devices of the run", min=1),
    json: options.JsonOption = False,
) -> None:
    """Choose free settings for a budget, and print the spec; exit 1 if none is within it.

    The table of candidates goes to stderr, so that ``> FILE`` keeps the spec alone.

    Of several budgets the first in this order is used up, and the others are kept:
    parameters, FLOPs, time. Within memory alone the most parameters are taken. With steps=? and
    no --params the size is taken whose tokens a parameter are nearest to its family's.
    """
    from bertc.lab.fit.candidate import budget
    from bertc.lab.fit.fitting import choose
    from bertc.lab.forecast.sealed import read_law

    limits = {"params": params, "flops": flops, "time": time, "memory": memory}
    budgets = [budget(kind, text) for kind, text in limits.items() if text is not None]
    choice = choose(spec, budgets, set or (), device, world, read_law(law) if law else None, loss)
    if json:
        say(choice.as_json())
    else:
        say(choice.as_table(), err=True)
        if choice.fits:
            say(choice.spec(), nl=False)
    if not choice.fits:
        raise typer.Exit(1)


@app.command()
def build(
    spec: options.SpecArgument,
    set: options.SetOption = None,
    emit: str = option("python", "tree, program, resolved, weights, module or python"),
    out: Path | None = option(None, "a file [else printed]; of a run model.c", "--out", "-o"),
    embed: bool = option(False, "with model.c: its weights are in it", "--embed"),
    int8: bool = option(False, "with model.c: write int8 weights", "--int8"),
    most_loss: float = option(0.5, "with --int8: points of accuracy it may lose", min=0),
) -> None:
    """Compile a spec to one file of PyTorch alone, or print an earlier stage.

    A run becomes a program in C: -o model.c. Its weights are next to it.
    """
    from bertc.base.storage.durable import replace
    from bertc.cli.emit import emit as show
    from bertc.run.records.folder import RunFolder

    if out is not None and out.suffix == ".c":
        from bertc.hub.published import or_hub
        from bertc.lab.c.building import c_files

        if set:
            raise UsageError("a run has its settings", "leave --set out")
        if not is_folder(spec):
            steps = or_hub(f"bertc train SPEC --out RUN, then bertc build RUN -o {out}", spec)
            raise UsageError(f"a program in C needs weights, and {spec} is no run", steps)
        if int8:
            from bertc.lab.c.int8 import judge_int8

            say(judge_int8(Path(spec), most_loss))
        for path, content in c_files(Path(spec), out, int8, embed).items():
            replace(path, content)
            say(f"{path}: {len(content):,} bytes")
        return
    folder = RunFolder(Path(spec))
    if embed or int8 or (is_folder(spec) and (folder.holds_a_run or folder.holds_a_model)):
        raise UsageError(f"{spec} becomes a program in C", help="-o model.c")
    text = show(spec, set or (), emit)
    if out is None:
        say(text)
        return
    replace(out, f"{text.rstrip()}\n".encode())
    say(f"{out}: {len(text.splitlines())} lines")


@app.command("show-batch")
def show_batch(
    spec: str = spec_argument(..., "a spec, or a run folder"),
    set: options.SetOption = None,
    examples: int = option(3, "how many", min=1, max=64),
    step: int | None = option(None, "those that this step reads, counted from 0", min=0),
) -> None:
    """Print examples as the model reads them: masks, labels, segments."""
    from bertc.api import resolve
    from bertc.run.records.folder import RunFolder
    from bertc.use.preview import preview

    folder = RunFolder(Path(spec))
    run = folder.path if is_folder(spec) and folder.holds_a_run else None
    if run and set:
        raise UsageError("a run has its settings", "leave --set out, or show its spec.bertc")
    program = folder.read_resolved() if run else resolve(spec, set or ())
    say(preview(program, examples, color=in_color(sys.stdout), step=step, run=run), styled=True)


@app.command()
def prepare(
    to: str = option(..., "a folder, or an address: s3://bucket/corpus"),
    spec: str | None = spec_argument(
        None, "a spec that names the text, the vocabulary and the rows"
    ),
    set: options.SetOption = None,
    part: str | None = option(None, "one share of the parts: 17/400, on whatever machine"),
    workers: int | None = option(None, "processes; by default one for each core", min=1),
    status: bool = option(False, "list what is done and missing", "--status"),
    finish: bool = option(False, "write the manifest when all parts are there", "--finish"),
) -> None:
    """Make text tokens ahead of training, part by part, for data=prepared("ADDRESS").

    Killed, repeated or started twice, the result is the same. Shares of the parts (--part) may be
    prepared on several machines at once; --finish ends it.
    """
    from bertc.run import preparing

    if status or finish:
        if spec or set or part or workers or (status and finish):
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

    command, share = shlex.join(["bertc", "prepare", *options.spec_words(spec, set)]), _share(part)
    program = resolve(spec, set or (), sparing=True)  # its text is read to prepare it
    ways = (workers or available_cores(), command)
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
