"""The values that recorded calls read."""

from collections import Counter
from functools import cache

from torch.utils._pytree import tree_leaves

from bertc.use.source.recording import Call, CallScope, TensorValue, within


class Reads:
    """The values that the calls of a scope read."""

    def __init__(self, scope: CallScope) -> None:
        made = {value for call in scope.calls for value in call.results}
        read = [value for call in scope.calls for value in read_by(call)] + scope.outputs
        self.free = [v for v in dict.fromkeys(read) if v not in made and not _own(v, scope)]
        """Values from outside, in the order of use."""
        self.uses = Counter(read)


reads = cache(Reads)
"""The same of a scope that does not change any more."""


@cache
def read_by(call: Call) -> list[TensorValue]:
    """The values that a call reads."""
    if call.body:
        return reads(call.body).free
    return [x for x in tree_leaves((call.args, call.kwargs)) if isinstance(x, TensorValue)]


def _own(value: TensorValue, scope: CallScope) -> bool:
    """Is it a parameter of the scope's module?"""
    return bool(value.path) and within(value.path, scope.path)
