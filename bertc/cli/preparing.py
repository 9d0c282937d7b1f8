"""The command that prepares text ahead of training."""

import re
import shlex

import typer

from bertc.base.cores import available_cores
from bertc.base.diagnostics import UsageError
from bertc.base.storage.paths import cache_folder
from bertc.cli.options import SetOption, app, option, say, spec_argument, spec_words


@app.command()
def prepare(
    to: str = option(..., "a folder, or an address: s3://bucket/corpus"),
    spec: str | None = spec_argument(
        None, "a spec that names the text, the vocabulary and the rows"
    ),
    set: SetOption = None,
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

    command, share = shlex.join(["bertc", "prepare", *spec_words(spec, set)]), _share(part)
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
