"""Shipped specs that read text alone, and one of each structure."""

from collections.abc import Callable

from bertc.api import points
from bertc.base.storage.paths import shipped_specs
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage


def _reads_text_alone(programs: tuple[Resolved, ...]) -> bool:
    stages = [stage for program in programs for stage in program.stages]
    return not any(stage.tasks or stage.allocated != stage.learned for stage in stages)


PROGRAMS = {name: points(name) for name in sorted(shipped_specs())}
"""The points of every shipped spec."""
PRETRAINING = [name for name, programs in PROGRAMS.items() if _reads_text_alone(programs)]
"""Shipped specs without tasks and teachers, of which those in ``kinds`` are small examples."""


def _without_numbers(value: object) -> object:
    """A dumped value in which numbers are alike, and so are members of a list but for numbers."""
    match value:
        case dict():
            return {name: _without_numbers(inner) for name, inner in value.items()}
        case list():
            return sorted({repr(_without_numbers(inner)) for inner in value})
        case int() | float() if not isinstance(value, bool):
            return "number"
        case _:
            return value


def _operations(stage: Stage) -> str:
    """What decides which operations a stage has, but for how large they are."""
    read = {"encoder", "generator", "objective", "format", "padded", "pack"}
    without = {"encoder": {"initializer", "dropout", "languages"}}
    dumped = stage.model_dump(mode="json", include=read, exclude=without)
    owners = (stage.encoder.attention_owner, stage.encoder.ffn_owner)
    shared = [len(set(owner)) < len(owner) for owner in owners]
    return f"{_without_numbers(dumped)} {shared} {stage.memory > 0}"


def _learning(stage: Stage) -> str:
    """What decides how a stage learns as well."""
    read = {"grow", "replacements", "data", "mixing", "pairs", "optimizer", "freeze"}
    return f"{_operations(stage)} {_without_numbers(stage.model_dump(mode='json', include=read))}"


def _smallest_of_each(kind: Callable[[Stage], str]) -> list[str]:
    """Of the specs whose stages are of the same kinds, the smallest."""
    found = dict[frozenset[str], tuple[int, str]]()
    for name in PRETRAINING:
        first = PROGRAMS[name][0]
        size = len(first.encoder.layers) * first.encoder.hidden**2
        key = frozenset(map(kind, first.stages))
        found[key] = min(found.get(key, (size, name)), (size, name))
    return [name for _, name in found.values()]


STRUCTURES = _smallest_of_each(_operations)
"""One of the specs whose operations differ in size alone."""
SYSTEMS = _smallest_of_each(_learning)
"""One of those that learn in the same way too."""
