"""Facts from files that decide settings: the network of init, labels and examples of tasks."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, assert_never

from bertc.base.diagnostics import Diagnostic, Diagnostics
from bertc.base.storage.paths import is_taken, shipped_specs
from bertc.check.facts.networks import copy_embedding, network_of, program_of, take_network
from bertc.check.facts.texts import count_examples
from bertc.check.passes import resolve
from bertc.check.passes.extends import extends
from bertc.check.passes.recipes import fill_arguments
from bertc.hub.published import model_folder
from bertc.ir.changing.growth import OF_INIT, TEACHER, FromOther
from bertc.ir.learning.objective import NOBODY, FromFolder, FromSpec, NoTeacher, Shape, Teacher
from bertc.ir.program import Given, Program, Resolved, map_terms
from bertc.ir.vocabulary import Extended, TokenizerFile, Trimmed
from bertc.lang import load


def facts(program: Program, diagnostics: Diagnostics) -> Program:
    """A program with every fact from other files filled in: the first pass."""

    def in_folders(settings: Mapping[str, Given]) -> Mapping[str, Given]:
        """Settings with the folder in the hub's cache of each model, named after the commit."""
        named = {n: settings[n] for n in ("init", "teacher", "vocab") if n in settings}
        placed = {n: Given(_with_folder(g.value), g.origin) for n, g in named.items()}
        alike = all(placed[name].value is setting.value for name, setting in named.items())
        return settings if alike else {**settings, **placed}

    program = extends(program, diagnostics).map_blocks(in_folders)
    init = program.settings.get("init")
    if init is not None and isinstance(init.value, FromOther):
        if init.value.path == TEACHER:
            init, known = _of_teacher(program, init)
        else:
            known = network_of(Path(init.value.path))
        init, known = take_network(init, known, program.settings)
        _remark_direction(program, known.get("causal") is True, diagnostics)
        origin = replace(init.origin, kind="derived", source=OF_INIT)
        open_ = {n: Given(v, origin) for n, v in known.items() if n not in program.settings}
        program = copy_embedding(program.with_settings({**open_, "init": init}))
    return fill_arguments(program).map_blocks(_read_of)


def _remark_direction(program: Program, decoder: bool, diagnostics: Diagnostics) -> None:
    """Remark on the direction in which a decoder is read, unless it is written as it was."""
    written = program.settings.get("causal")
    if not decoder or (written and written.value is True):
        return
    reading = "is read as it was trained: tokens attend to earlier ones alone"
    help = "causal=true says so, causal=false makes an encoder of it"
    if written and written.value is False:
        reading, help = "was trained to see earlier tokens alone, and causal = false shows all", ""
    span = (written or program.settings["init"]).origin.span
    diagnostics.remark(Diagnostic("R130", f"the decoder of init {reading}", span, help=help))


def _with_folder(value: Any) -> Any:
    match value:
        case Extended(path="init") | Trimmed(path="init"):
            return value
        case FromOther() | FromFolder() | TokenizerFile() | Extended() | Trimmed():
            return value.model_copy(update={"path": model_folder(value.path)})
        case Teacher(source=source):
            return value.model_copy(update={"source": _with_folder(source)})
        case tuple():
            return tuple(map(_with_folder, value))
        case _:
            return value


def _of_teacher(program: Program, init: Given) -> tuple[Given, dict[str, Any]]:
    """``init`` with the path of the first teacher if it has one, and settings of its network."""
    first = program.stages[0].settings if program.stages else {}
    teachers = first.get("teacher") or program.settings.get("teacher")
    teacher = teachers.value[0] if teachers else NOBODY[0]
    match teacher.source:
        case FromFolder(path=path) if settings := network_of(Path(path)):
            return replace(init, value=init.value.model_copy(update={"path": path})), settings
    shape = _with_shape(teacher).shape
    return init, shape.body.settings() if shape else {}


def _read_of(settings: Mapping[str, Given]) -> Mapping[str, Given]:
    read = map_terms(settings, count_examples)
    teachers = settings.get("teacher")
    if teachers is None:
        return read
    return {**read, "teacher": Given(tuple(map(_with_shape, teachers.value)), teachers.origin)}


def _with_shape(teacher: Teacher) -> Teacher:
    resolved: Resolved | None
    match teacher.source:
        case FromFolder(path=path):
            resolved = program_of(Path(path))
            # Which heads are in a folder of others, only its weights say.
            known = is_taken(Path(path) / "resolved.json")
        case FromSpec(spec=spec):
            read = _resolve if spec in shipped_specs() else _resolve.__wrapped__
            # What a network of this shape will have learned is not known: its weights are to come.
            resolved, known = read(spec), False
        case NoTeacher():
            return teacher
        case unreachable:
            assert_never(unreachable)
    if resolved is None:
        return teacher
    terms = resolved.terms() if known else ()
    shape = Shape(body=resolved.encoder, terms=terms, vocabulary=resolved.vocabulary)
    source = teacher.source.model_copy(update={"shape": shape})
    return teacher.model_copy(update={"source": source})


@cache
def _resolve(spec: str) -> Resolved:
    """The first program of a spec; a shipped one is the same for every point of a grid."""
    return resolve(facts(load(spec)[0], Diagnostics()))
