"""Differences between the program of a run and the program that is to resume it."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import ResumeRefusedError
from bertc.base.storage.paths import is_file
from bertc.base.storage.plain_file import read_text
from bertc.ir.data import Prepared
from bertc.ir.learning.schedule import Words
from bertc.ir.program import METHODS, Program, Resolved, Run, Stage
from bertc.ir.program.resolved import drop_places
from bertc.ir.program.settings import FREE, STAGE_SETTINGS, Settings
from bertc.lang import setting_shape, show_value
from bertc.lang.files import overrides_in
from bertc.lang.read.scan import LARGEST_TEXT
from bertc.run.records.longer import longer, why_not_longer

AS_STEPS = tuple(
    name for name in STAGE_SETTINGS if name not in Stage.model_fields and not hasattr(Stage, name)
)
"""Settings without a field in resolved stages, whose steps follow from them."""
REDUNDANT = (*FREE, *AS_STEPS, "grow")
"""Stage settings that follow from others, or change nothing of what a run computes."""
SHOWN = 12
POINT = "# the point "
"""Prefix of the last line in the spec of a grid point's run; the point's name follows."""
STAGES = "stages"
"""The names of stages, compared and written like a setting."""


@dataclass(frozen=True)
class Change:
    """A setting with another value, in all stages or in ``stage``; ``lines`` of files changed."""

    setting: str
    was: Any
    now: Any
    stage: str = ""
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        was, now = self.texts()
        return f"{self.name}: {was} -> {now}"

    @property
    def name(self) -> str:
        """The setting, after its stage if it differs in that alone."""
        return f"{self.stage}.{self.setting}" if self.stage else self.setting

    def texts(self) -> tuple[str, str]:
        """The old and the new value in the notation of specs."""
        was, now = written(self.setting, self.was), written(self.setting, self.now)
        return was, now if was != now else f"{now} as it is now"

    def follows(self, old: Resolved, new: Resolved) -> bool:
        """True if the value differs only because another setting does."""
        if self.setting == "share" and old.encoder.depth != new.encoder.depth:
            return True
        return origin(self.setting, old) == origin(self.setting, new) == "derived"


def changed_lines(old: Resolved, new: Resolved) -> list[str]:
    """The first differences between files of the user's classes, as by ``diff -u0``."""
    was, now = map(_files, (old, new))
    diffs = (unified_diff(was[f], now.get(f, was[f]), f, f, n=0, lineterm="") for f in was)
    lines = [line[:100] for of_file in diffs for line in of_file]
    return lines[:SHOWN] + ["..."] * (len(lines) > SHOWN)


def _files(program: Resolved) -> dict[str, list[str]]:
    """The lines of the files of the user's classes."""
    texts = dict(leaves(program.model_dump(mode="json")))
    sources = {at[:-1]: text for at, text in texts.items() if at[-1] == "source" and text}
    codes = ((texts.get((*at, "code")), text) for at, text in sources.items())
    return {code.rpartition(":")[0]: text.split("\n") for code, text in codes if code}


def refuse_another_program(old: Resolved, new: Resolved, run: Path | None = None) -> None:
    """Refuse to resume a run with other settings, naming those that somebody changed."""
    new = with_places_of(old, new)
    prepared = any(isinstance(s.corpus, Prepared) for stage in new.stages for s in stage.data)
    if prepared and origin("vocab", old) == origin("vocab", new) == "derived":
        new = new.model_copy(update={"vocabulary": old.vocabulary})  # it lies where the text does
    differing = changed(old, new)
    changes = [change for change in differing if not change.follows(old, new)]
    # Steps that were counted from epochs are all there is to see of those.
    changes = changes or [change for change in differing if change.setting == "steps"]
    timed = old.run.most_seconds or new.run.most_seconds
    if [c.setting for c in changes] == ["steps"] and new.steps > old.steps and not timed:
        _refuse_more_steps(old, new, run)
        return
    refuse([str(change) for change in changes] or differences(old, new), changed_lines(old, new))


def with_places_of(old: Resolved, new: Resolved) -> Resolved:
    """The ``new`` program, reading prepared text where ``old`` does if they read the same."""
    pairs = [*zip(old.stages, new.stages, strict=False)]
    data = [a.data for a, b in pairs if drop_places(a.data) == drop_places(b.data)]
    if len(data) != len(new.stages) or data == [stage.data for stage in new.stages]:
        return new
    stages = (b.model_copy(update={"data": text}) for (_, b), text in zip(pairs, data, strict=True))
    return new.model_copy(update={"stages": tuple(stages)})


def _refuse_more_steps(old: Resolved, new: Resolved, run: Path | None) -> None:
    if reason := why_not_longer(old, new):
        folder = run or Path("RUN")
        settings = [*overrides_of(folder / "spec.bertc"), f'init="{folder}"']
        settings.append(f"steps={new.steps - old.steps}")
        words = " ".join(f"--set {shlex.quote(setting)}" for setting in settings)
        raise ResumeRefusedError(
            f"the run was started with other settings: steps: {old.steps} -> {new.steps}; the "
            f"first of those would not be the ones that were made: {reason}",
            help=f"resume with --set steps={old.steps}, or train its spec on into another --out, "
            f"from its weights: {words}",
        )
    aside = tuple(f"run.{name}:" for name in ("save_every", "eval_every", "log_every"))
    refuse([d for d in differences(longer(old, new.steps), new) if not d.startswith(aside)])


def overrides_of(spec: Path) -> list[str]:
    """The overrides that a run's spec file keeps, and the values of its point of a grid."""
    if not is_file(spec):
        return []
    text = read_text(spec, 4 * LARGEST_TEXT)
    point = [line for line in text.splitlines() if line.startswith(POINT)][-1:]
    return [*overrides_in(text), *(v for line in point for v in values_of(line[len(POINT) :]))]


def values_of(point: str) -> list[str]:
    """Split the name of a point, ``seed=1 steps=5``, into settings."""
    return re.split(r" (?=[\w.]+=)", point)


def refuse(changes: Sequence[str], lines: Sequence[str] = ()) -> None:
    """Refuse to resume if there are changes, some in these lines of files."""
    if changes:
        more = len(changes) - SHOWN
        raise ResumeRefusedError(
            f"the run was started with other settings: {'; '.join(changes[:SHOWN])}"
            + "\n".join([f"; and {more} more" if more > 0 else "", *lines]),
            help="resume with what it was started with, or start a new run in another --out",
        )


def changed(old: Resolved, new: Resolved) -> list[Change]:
    """The settings that differ between two programs, whether written or derived."""
    before, after = of_the_run(old), of_the_run(new)
    changes = [
        Change(name, before[name], after[name])
        for name in Settings.model_fields
        if name in before and name in after and name not in FREE
        if before[name] != after[name]
    ]
    lines = (*changed_lines(old, new),)
    return [replace(change, lines=lines) for change in (*changes, *_in_stages(old, new))]


def of_the_run(resolved: Resolved) -> dict[str, Any]:
    """The values of the settings that are not of single stages."""
    encoder, run = resolved.encoder, resolved.run
    of_methods = {method.setting for method in METHODS} - {*STAGE_SETTINGS}
    return {
        **{name: value for name, value in encoder.settings().items() if name not in STAGE_SETTINGS},
        # Steps say how long it is.
        **{name: getattr(run, name) for name in Run.model_fields if name not in of_methods},
        **{
            name: getattr(encoder, name, Settings.model_fields[name].default)
            for name in of_methods - {*Run.model_fields}
        },
        "save_at": tuple(
            Words(words=saved.words) if saved.words else saved.step for saved in run.save_at
        ),
        "pooler": encoder.pooler,
        "languages": encoder.languages,
        "vocab": resolved.vocabulary,
        "generator": resolved.stages[-1].replacements,
    }


def _in_stages(old: Resolved, new: Resolved) -> Iterator[Change]:
    """Differences between stages: one for the whole run if all stages agree, else one per stage."""
    names = [stage.name for stage in old.stages]
    if names != [stage.name for stage in new.stages]:
        yield Change(STAGES, old.stages, new.stages)
        return
    # All stages have the same fractions of all steps after ``--set steps``.
    pairs, rounding = zip(old.stages, new.stages, strict=True), 1 / min(old.steps, new.steps)
    apart = [abs(a.steps / old.steps - b.steps / new.steps) for a, b in pairs]
    for setting in (name for name in STAGE_SETTINGS if name not in (*AS_STEPS, *FREE)):
        was, now = (_of_stages(program, setting) for program in (old, new))
        if was == now:
            continue
        if setting == "steps" and max(apart) <= rounding:
            yield Change(setting, old.length, new.length)
        elif setting not in ("steps", "grow") and all(e == e[:1] * len(e) for e in (was, now)):
            yield Change(setting, was[0], now[0])
        else:
            for stage, a, b in zip(names, was, now, strict=True):
                # Where one of the two does not grow, layers differ, and these are named.
                if a != b and None not in (a, b):
                    yield Change(setting, a, b, stage)


def _of_stages(program: Resolved, setting: str) -> list[Any]:
    """The value of a setting in each stage; the steps of some runs are a time."""
    timed = setting == "steps" and program.run.most_seconds
    return [program.length if timed else getattr(stage, setting) for stage in program.stages]


def origin(setting: str, resolved: Resolved) -> str:
    """The kind of origin of a setting's value, such as ``set`` or ``derived``."""
    return resolved.origins.get(setting, "").partition(":")[0]


def written(setting: str, value: Any) -> str:
    """A value in the notation of specs."""
    if setting == STAGES:
        return ", ".join(stage.name for stage in value)
    return show_value(value, setting_shape(setting))


def differences(old: Resolved, new: Resolved) -> list[str]:
    """Every value in which two programs differ, as "stages.0.padded: true -> false"."""
    was, now = (dict(leaves(program.model_dump(mode="json"))) for program in (old, new))

    def shown(leaves: dict[tuple[str, ...], Any], address: tuple[str, ...]) -> str:
        return json.dumps(leaves[address]) if address in leaves else "none"

    return [
        f"{'.'.join(address)}: {shown(was, address)} -> {shown(now, address)}"
        for address in {**was, **now}
        if was.get(address) != now.get(address)
        and address[0] not in ("name", "origins")
        and not {*address} & FREE.keys()
    ]


def leaves(value: Any, address: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The plain values within others, each with its address."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, (*address, name))
    elif isinstance(value, list) and value:
        for index, part in enumerate(value):
            yield from leaves(part, (*address, str(index)))
    else:
        yield address, value


def settings_texts(program: Resolved | Program) -> dict[str, str]:
    """The text of every setting of a program, as ``stage.setting`` where its stages differ.

    Of one that is not resolved, of the settings of all stages that are written.
    """
    if isinstance(program, Program):
        return {name: written(name, setting.value) for name, setting in program.settings.items()}
    of_run = of_the_run(program)
    texts = {n: written(n, of_run[n]) for n in Settings.model_fields if n in of_run}
    for name in STAGE_SETTINGS:
        if name not in REDUNDANT:
            of_stages = [written(name, value) for value in _of_stages(program, name)]
            if len({*of_stages}) == 1:
                texts[name] = of_stages[0]
            else:
                named = zip(program.stages, of_stages, strict=True)
                texts |= {f"{stage.name}.{name}": text for stage, text in named}
    return texts
