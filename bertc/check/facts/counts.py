"""Counts that only reading a text gives: rows of a pass over it, words of a row."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from types import UnionType

from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError
from bertc.base.storage.paths import cache_folder
from bertc.check.facts import facts
from bertc.check.passes import assemble, complete
from bertc.ir.learning.schedule import Epochs, Words
from bertc.ir.methods.ending import MOST_STEPS
from bertc.ir.methods.method import Method
from bertc.ir.program import Given, Origin, Program, Resolved, Settings, StageGiven, TaskStage
from bertc.text.cache.store import Progress

LITTLE_BYTES = 16 << 20
"""Text that a check reads; of more it says that it is not counted."""
OF_THE_TEXT = Origin("derived", source="counted in the text")
NOT_READ, READ_BY = "a check does not read so much", "bertc estimate reads and counts it"


class _TooMuchError(DataError):
    """Text that a check does not read."""


class _Sparing(Progress):
    def begin(self, task: str, total: int, unit: str) -> None:
        if total > LITTLE_BYTES:
            raise _TooMuchError(NOT_READ, READ_BY)


def add_text_counts(
    program: Program, diagnostics: Diagnostics, sparing: bool, too_much: set[str]
) -> Program:
    """The program with ``epoch_rows`` and ``row_words`` of each stage, if a length needs them.

    The text is tokenised and arranged in the cache, where training finds it. ``sparing``: text that
    is not there is read up to 16 MiB; ``too_much``: what is more, of all points.
    """
    blocks = program.blocks
    lengths = [block[name] for block in blocks for name in ("steps", "save_at") if name in block]
    asking = [length for length in lengths if _is_counted(length.value)]
    if not asking:
        return program
    plain, findings = program.map_blocks(_without_lengths), Diagnostics()
    finished = complete(facts(plain, findings), findings)
    if findings.found:  # they are reported by the passes
        return plain
    texts = repr([s.value for block in blocks for n, s in block.items() if n in ("data", "vocab")])
    try:
        if texts in too_much:
            raise _TooMuchError(NOT_READ, READ_BY)
        counts = _count(assemble(finished), sparing)
        known = all(of_stage["row_words"].value for of_stage in counts if of_stage)
        if not known and any(_is_counted(length.value, Words) for length in asking):
            help = "a length in tokens; of text files, remove tokens/ in the cache, which is older"
            raise DataError("it has token ids, whose words are not known", help)
    except (DataError, MissingInputError) as error:
        message = f"epochs and words are counted in the text: {error.message}"
        too_much |= {texts} if isinstance(error, _TooMuchError) else set()
        later = sparing and isinstance(error, _TooMuchError | MissingInputError)
        say, code = (diagnostics.remark, "R127") if later else (diagnostics.record, "E332")
        say(Diagnostic(code, message, asking[0].origin.span, help=error.help))
        return plain
    if not program.stages:
        return program.with_settings(counts[0])
    return replace(program, stages=tuple(map(StageGiven.with_settings, program.stages, counts)))


def _is_counted(length: object, units: type | UnionType = Epochs | Words) -> bool:
    lengths = length if isinstance(length, tuple) else (length,)
    return any(isinstance(part, units) for part in lengths)


def _without_lengths(settings: Mapping[str, Given]) -> dict[str, Given]:
    """The settings with more steps than any length has, uncut, and nothing that counts them."""
    plain = {name: setting for name, setting in settings.items() if name != "save_at"}
    for name, setting in plain.items():
        if isinstance(setting.value, Method) and setting.value.reads == "text":
            plain[name] = replace(setting, value=Settings.model_fields[name].default)
        elif name == "steps" and _is_counted(setting.value):
            plain[name] = replace(setting, value=MOST_STEPS)
    return plain


def _count(resolved: Resolved, sparing: bool) -> list[dict[str, Given]]:
    """The counts of each stage; none of one that learns a task."""
    from bertc.machine.display import choose
    from bertc.tasks.corpus import counts_of_rows, prepare
    from bertc.text.vocabularies import exact

    stages = tuple(stage.model_copy(update={"steps": 1}) for stage in resolved.stages)
    texts, cache = tuple(s for s in stages if not isinstance(s, TaskStage)), cache_folder()
    if not texts:
        return [{} for _ in stages]
    resolved = resolved.model_copy(update={"stages": texts})
    with closing(choose(quiet=sparing or os.environ.get("RANK", "0") != "0")) as display:
        progress = _Sparing() if sparing else display
        corpus = prepare(exact(resolved, cache, progress, None), cache, progress)
    counts = {stage.name: counts_of_rows(corpus, nth) for nth, stage in enumerate(texts)}
    return [
        {name: Given(count, OF_THE_TEXT) for name, count in counts.get(stage.name, {}).items()}
        for stage in stages
    ]
