"""Facts from files that decide settings: the network of init, labels and examples of tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import Diagnostics
from bertc.check.facts.begun import embedding_as_there, taken
from bertc.check.facts.examples import counted
from bertc.check.facts.networks import network_of
from bertc.check.facts.published import with_folders
from bertc.check.facts.teachers import with_shape
from bertc.check.passes import resolve
from bertc.check.passes.extends import extends
from bertc.check.passes.recipes import as_published
from bertc.ir.changing.growth import TEACHER, FromOther
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.teacher import NOBODY, FromFolder
from bertc.ir.program.written import Given, Program
from bertc.lang import load


def facts(program: Program, diagnostics: Diagnostics) -> Program:
    """A program with every fact from other files filled in: the first pass.

    Raises:
        MissingInputError, DataError: if a file that it names is not there, or cannot be read.
    """
    program = extends(program, diagnostics)
    program = _in_each_block(program, with_folders)
    init = program.settings.get("init")
    if init is not None and isinstance(init.value, FromOther):
        program = embedding_as_there(_as_there(program, init))
    program = as_published(program)
    return _in_each_block(program, _read_of)


def _in_each_block(
    program: Program, change: Callable[[Mapping[str, Given]], dict[str, Given]]
) -> Program:
    """A program with other settings, of all stages and of each."""
    stages = (replace(stage, settings=change(stage.settings)) for stage in program.stages)
    return replace(program.with_settings(change(program.settings)), stages=tuple(stages))


def _as_there(program: Program, init: Given) -> Program:
    """Fill in unwritten settings of the network from ``init``, and what is asked of it."""
    if init.value.path == TEACHER:
        init, settings = _of_teacher(program, init)
    else:
        settings = network_of(Path(init.value.path))
    init, settings = taken(init, settings, program.settings)
    origin = replace(init.origin, kind="derived", source="that of init")
    open_ = {n: Given(v, origin) for n, v in settings.items() if n not in program.settings}
    return program.with_settings({**open_, "init": init})


def _of_teacher(program: Program, init: Given) -> tuple[Given, dict[str, Any]]:
    """``init`` with the path of the first teacher if it has one, and settings of its network."""
    first = program.stages[0].settings if program.stages else {}
    teachers = first.get("teacher") or program.settings.get("teacher")
    teacher = teachers.value[0] if teachers else NOBODY[0]
    if isinstance(teacher.source, FromFolder) and (
        settings := network_of(Path(teacher.source.path))
    ):
        path = teacher.source.path
        return replace(init, value=init.value.model_copy(update={"path": path})), settings
    shape = with_shape(teacher, _of_spec).shape
    return init, shape.body.settings() if shape else {}


def _read_of(settings: Mapping[str, Given]) -> dict[str, Given]:
    """Settings with what files say of their tasks and teachers."""
    read = counted(settings)
    teachers = settings.get("teacher")
    if teachers is not None:
        shaped = tuple(with_shape(teacher, _of_spec) for teacher in teachers.value)
        read["teacher"] = Given(shaped, teachers.origin)
    return read


def _of_spec(spec: str) -> Resolved:
    """The program of a teacher's spec, the first of a grid."""
    diagnostics = Diagnostics()
    first, *_ = load(spec, (), diagnostics)
    diagnostics.raise_if_any()
    return resolve(facts(first, diagnostics))
