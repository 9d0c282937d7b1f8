"""The values that recorded calls read."""

from functools import cache

from torch.utils._pytree import tree_leaves

from bertc.use.source.recording import Call, CallScope, TensorValue, within


@cache
def read_by(call: Call) -> list[TensorValue]:
    """The values that a call reads; a scope that is read does not change any more."""
    if call.body:
        return free_values(call.body)
    return [x for x in tree_leaves((call.args, call.kwargs)) if isinstance(x, TensorValue)]


def all_read(scope: CallScope) -> list[TensorValue]:
    """The values that the calls of a scope read, in order, and its outputs."""
    return [value for call in scope.calls for value in read_by(call)] + scope.outputs


def free_values(scope: CallScope) -> list[TensorValue]:
    """Values from outside, without repeats, but for parameters of the scope's module."""
    made = {value for call in scope.calls for value in call.results}
    inner = {v for v in all_read(scope) if v.path and within(v.path, scope.path)}
    return [v for v in dict.fromkeys(all_read(scope)) if v not in made | inner]
