"""Shapes of teachers, which only their folders or specs know."""

from pathlib import Path
from typing import assert_never

from bertc.diagnostics import Diagnostics
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.teacher import FromFolder, FromSpec, NoTeacher, Shape, Teacher
from bertc.storage.paths import is_taken


def with_shape(teacher: Teacher) -> Teacher:
    """A teacher with the shape of its network, if that can be found.

    Raises:
        SpecError: with the mistakes of its spec.
        DataError: if its folder is damaged.
    """
    from bertc.external import program_of

    known = True
    match teacher.source:
        case FromFolder(path=path):
            found = program_of(Path(path))
            # Which heads are in a folder of others, only its weights say.
            known = is_taken(Path(path) / "resolved.json")
        case FromSpec(spec=spec):
            found = _of_spec(spec)
            # What a network of this shape will have learned is not known: its weights are to come.
            known = False
        case NoTeacher():
            return teacher
        case unreachable:
            assert_never(unreachable)
    if found is None:
        return teacher
    terms = found.terms() if known else ()
    shape = Shape(body=found.encoder, terms=terms, vocabulary=found.vocabulary)
    source = teacher.source.model_copy(update={"shape": shape})
    return teacher.model_copy(update={"source": source})


def _of_spec(spec: str) -> Resolved:
    from bertc import syntax
    from bertc.external import filled_in
    from bertc.passes import resolve

    diagnostics = Diagnostics()
    first, *_ = syntax.load(spec, (), diagnostics)
    diagnostics.raise_if_any()
    return resolve(filled_in(first, diagnostics))
