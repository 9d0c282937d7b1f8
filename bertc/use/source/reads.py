"""The values that recorded calls read, and the calls that are needed for a result."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from bertc.use.source.recording import Call, CallScope, TensorValue, within


class Reads:
    """The needed calls of a scope, and the values that they read."""

    def __init__(self, scope: CallScope) -> None:
        needed = _needed(scope)
        self.needed = [call for call in scope.calls if call in needed]
        made = {value for call in self.needed for value in call.results}
        read = [value for call in self.needed for value in read_by(call)] + scope.outputs
        self.free = [v for v in dict.fromkeys(read) if v not in made and not _own(v, scope)]
        """Values from outside, in the order of use."""
        self.uses = Counter(read)


reads = cache(Reads)
"""The same of a scope that does not change any more."""


@cache
def read_by(call: Call) -> list[TensorValue]:
    """The values that a call reads."""
    return reads(call.body).free if call.body else list(_values((call.args, call.kwargs)))


def _values(argument: Any) -> Iterator[TensorValue]:
    match argument:
        case TensorValue():
            yield argument
        case tuple() | list():
            for part in argument:
                yield from _values(part)
        case dict():
            yield from _values(tuple(argument.values()))
        case slice():
            yield from _values((argument.start, argument.stop))


def _own(value: TensorValue, scope: CallScope) -> bool:
    """Is it a parameter of the scope's module?"""
    return bool(value.path) and within(value.path, scope.path)


def _needed(scope: CallScope) -> set[Call]:
    """The calls of a scope whose results are used."""
    needed, calls = set[Call](), set(scope.calls)
    waiting = list(scope.outputs)
    while waiting:
        call = waiting.pop().call
        if call is None or call in needed or call not in calls:
            continue
        needed.add(call)
        waiting += read_by(call)
    return needed
