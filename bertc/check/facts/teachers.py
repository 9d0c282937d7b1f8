"""Shapes of teachers, which only their folders or specs know."""

from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from bertc.base.storage.paths import is_taken
from bertc.check.facts.networks import program_of
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.teacher import FromFolder, FromSpec, NoTeacher, Shape, Teacher


def with_shape(teacher: Teacher, of_spec: Callable[[str], Resolved]) -> Teacher:
    """A teacher with the shape of its network, if that can be found.

    ``of_spec`` resolves the spec of a teacher that is trained before.

    Raises:
        SpecError: with the mistakes of its spec.
        DataError: if its folder is damaged.
    """
    known = True
    match teacher.source:
        case FromFolder(path=path):
            resolved = program_of(Path(path))
            # Which heads are in a folder of others, only its weights say.
            known = is_taken(Path(path) / "resolved.json")
        case FromSpec(spec=spec):
            resolved = of_spec(spec)
            # What a network of this shape will have learned is not known: its weights are to come.
            known = False
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
