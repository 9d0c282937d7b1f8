"""Recorded calls without what is there for speed alone: joined products, views of nothing."""

from itertools import compress
from typing import Any

from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

from bertc.model.weights import Linear
from bertc.use.source.recording import Call, CallScope, LongList, TensorValue, in_place, within

VIEWS = ("torch.unflatten", "torch.Tensor.flatten", "torch.Tensor.reshape", "torch.Tensor.view")
NEUTRAL = {
    "torch.Tensor.add": 0, "torch.Tensor.sub": 0, "torch.Tensor.mul": 1, "torch.Tensor.div": 1,
}  # fmt: skip
"""Numbers with which an operation gives its tensor."""
COPIES = ("torch.Tensor.expand", "torch.Tensor.contiguous")
PARTINGS = ("torch.functional.split", "torch.Tensor.chunk")


def simplify(scope: CallScope, modules: dict[str, nn.Module]) -> None:
    """Simplify the calls of a scope, and of those in it, in place; ``modules`` by their paths."""
    _walk(scope, modules, {})
    _prune(scope)


def _prune(scope: CallScope) -> None:
    """Leave out calls, and results of them, that nothing reads."""
    read, calls = set(scope.outputs), list[Call]()
    for call in reversed(scope.calls):
        if not read.intersection(call.results):
            continue
        calls.insert(0, call)
        if call.body:
            used = [value in read for value in call.results]
            call.body.outputs = list(compress(call.body.outputs, used))
            call.results = tuple(compress(call.results, used))
            call.several = len(call.results) > 1
            for nth, value in enumerate(call.results):
                value.nth = nth
            _prune(call.body)
        read.update(call.read)
    scope.calls = calls


def _walk(
    scope: CallScope, modules: dict[str, nn.Module], equal: dict[TensorValue, TensorValue]
) -> None:
    calls: list[Call] = []
    known: dict[Any, Call] = {}
    inside = {path: module for path, module in modules.items() if within(path, scope.path)}
    for call in scope.calls:
        call.args, call.kwargs = _seen(call.args, equal), _seen(call.kwargs, equal)
        if call.body:
            _walk(call.body, modules, equal)
        if (source := _find_unchanged(call)) is not None:
            equal[call.results[0]] = source
            continue
        name = call.function
        if isinstance(name, str) and "dropout" not in name and not in_place(name):
            # torch gives the same for the same arguments, and changes none
            before = known.setdefault(_key((call.function, call.args, call.kwargs)), call)
            if before is not call:
                equal |= dict(zip(call.results, before.results, strict=True))
                continue
        if _is_linear(call, inside, scope.path):
            path = call.args[1].path.removesuffix(".weight")
            call.function, call.args, call.path = inside[path], call.args[:1], path
        calls += _split_linear(call, inside) or [call]
    scope.calls = calls
    scope.outputs = [_seen(value, equal) for value in scope.outputs]


def _seen(argument: Any, equal: dict[TensorValue, TensorValue]) -> Any:
    """An argument with what values are the same as."""

    def seen(part: Any) -> Any:
        return seen(equal[part]) if isinstance(part, TensorValue) and part in equal else part

    return tree_map(seen, argument)


def _key(argument: Any) -> Any:
    """Equal for equal arguments."""
    parts, form = tree_flatten(argument)
    made = (TensorValue, LongList)
    return form, *(id(x) if isinstance(x, made) else (type(x), repr(x)) for x in parts)


def _find_unchanged(call: Call) -> TensorValue | None:
    """The value that a call returns as it is, if it does."""
    function, args, result = call.function, call.args, call.results[0] if call.results else None
    if call.body and not call.body.calls and len(call.results) == 1:
        return call.body.outputs[0]
    if result is None or call.several or not args:
        return None
    if function == "torch.cat":
        parts = tuple(value for value in args[0] if 0 not in value.tensor.shape)
        call.args = (parts, *args[1:])
        return parts[0] if len(parts) == 1 else None
    source: TensorValue = args[0]
    if not isinstance(source, TensorValue) or source.tensor.dtype != result.tensor.dtype:
        return None
    index = args[1] if len(args) > 1 and isinstance(args[1], tuple) else args[1:]
    slices = all(isinstance(part, slice) or part is Ellipsis for part in index)
    if function in COPIES or (function == "torch.Tensor.__getitem__" and slices):
        return source if source.tensor.shape == result.tensor.shape else None
    if function in NEUTRAL and len(args) == 2 and args[1] == NEUTRAL[function]:
        return source
    while function in VIEWS:
        if source.tensor.shape == result.tensor.shape:
            return source
        if source.call is None or source.call.function not in VIEWS:
            return None
        source = source.call.args[0]
    return None


def _split_linear(call: Call, modules: dict[str, nn.Module]) -> list[Call]:
    """Linear maps, where a product with their joined weights is split again."""
    product = call.args[0].call if call.function in PARTINGS else None
    if product is None or product.function != "torch.nn.functional.linear":
        return []
    joined = product.args[1].call
    if joined is None or joined.function != "torch.cat":
        return []
    paths = [weight.path.removesuffix(".weight") for weight in joined.args[0]]
    maps = [modules.get(path) for path in paths]
    parts = list[Call]()
    for path, linear, value in zip(paths, maps, call.results, strict=False):
        if len(maps) != len(call.results) or not isinstance(linear, Linear):
            return []
        part = Call(linear, product.args[:1], {}, call.segment, (value,), path=path)
        value.call, value.nth = part, 0
        parts.append(part)
    return parts


def _is_linear(call: Call, modules: dict[str, nn.Module], itself: str) -> bool:
    """Is it the product of a linear map, which may be the module at ``itself``?"""
    if call.function != "torch.nn.functional.linear":
        return False
    weight, bias = (*call.args[1:], call.kwargs.get("bias"))[:2]
    path = weight.path.removesuffix(".weight")
    linear = modules.get(path)
    if not isinstance(linear, Linear) or (type(linear) is not Linear and path != itself):
        return False
    return (bias.tensor if isinstance(bias, TensorValue) else None) is linear.bias
