"""A forward pass of modules, recorded as calls on named values.

The modules run as they are, on tensors without memory. Sizes of batches are numbers that say how
they are computed. So what is recorded is what this program computes: branches that it does not
take leave no trace. Names of values are those of variables in the modules' own source.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

from bertc.model import Embedding, Linear, Norm
from bertc.model.own import written_as
from bertc.use.source.sizes import BatchSizes

TORCH_MODULES = (Linear, Embedding, Norm)
"""Modules that torch has too."""
SIZES = ("torch.Tensor.shape.__get__", "torch.Tensor.size", "torch.Tensor.numel")
name_of = cache(resolve_name)  # else it sets up warnings at each call
UNSEEN = ("torch", "jaxtyping", "contextlib", "functools", "typing", "unittest")
"""Packages whose variables have no names for us."""
LONG_LIST = 32
"""Numbers from which on a list is written as a call of the function that made it."""


class Binding(NamedTuple):
    """The name of a value in a frame."""

    depth: int
    name: str
    assigned: bool  # in the frame; else it is an argument


@dataclass(eq=False)
class TensorValue:
    """A tensor, where it was made, and the names that it was bound to."""

    tensor: Tensor
    call: "Call | None"  # None: an input or a parameter
    scope: "CallScope"
    path: str = ""  # of a parameter
    nth: int = 0  # of several results
    names: list[Binding] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """A call of a function of torch, or of a module."""

    function: str | nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    segment: int  # number of the call of an unnamed module around it, 0: none
    results: tuple[TensorValue, ...] = ()
    body: "CallScope | None" = None  # of a module that is written as a class
    several: bool = False  # its results are a tuple
    path: str = ""  # of one of torch's modules

    @property
    def renames(self) -> bool:
        """Does it give a tensor a second name, so that what reads both reads two?"""
        return self.function == "torch.Tensor.view_as" and self.args[0] is self.args[1]

    @cached_property
    def read(self) -> list[TensorValue]:
        """The values that it reads; a scope that is read does not change any more."""
        if self.body:
            return self.body.free_values()
        return [x for x in tree_leaves((self.args, self.kwargs)) if isinstance(x, TensorValue)]


@dataclass(eq=False)
class CallScope:
    """The calls in one call of a module."""

    module: nn.Module
    path: str
    depth: int = 0  # of the frames that it runs in
    calls: list[Call] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)
    keys: tuple[str, ...] = ()  # of the outputs

    def all_read(self) -> list[TensorValue]:
        """The values that its calls read, in order, and its outputs."""
        return [value for call in self.calls for value in call.read] + self.outputs

    def free_values(self) -> list[TensorValue]:
        """Values from outside, without repeats, but for parameters of its module."""
        made = {value for call in self.calls for value in call.results}
        inner = {v for v in self.all_read() if v.path and within(v.path, self.path)}
        return [v for v in dict.fromkeys(self.all_read()) if v not in made | inner]


@dataclass(eq=False)
class LongList:
    """A long list of numbers, and the method of a node that returned it, without arguments."""

    numbers: Any
    node: Any
    name: str


class Recorder(TorchFunctionMode):
    """Records calls of torch, and of modules, while it is entered."""

    def __init__(self, root: nn.Module, sizes: BatchSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.paths = {module: path for path, module in root.named_modules()}
        self.scope = CallScope(root, "")
        weights = root.named_parameters()
        self._values = {id(x): TensorValue(x, None, self.scope, path) for path, x in weights}
        self._made: dict[int, LongList] = {}
        self._segment = self._segments = 0
        self._passed: dict[int, tuple[dict[str, Any], int]] = {}

    def value(self, tensor: Tensor, name: str = "") -> TensorValue:
        """The value of a tensor; with a name it is one from outside."""
        if name:
            bound = [Binding(self.scope.depth, name, assigned=True)]
            self._values[id(tensor)] = TensorValue(tensor, None, self.scope, names=bound)
        return self._values[id(tensor)]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = self._unseen(func, *args, **(kwargs or {}))
        name = name_of(func) or func.__name__
        if name in SIZES:
            size = self.sizes.of
            return size(out) if isinstance(out, int) else torch.Size(map(size, out))
        self._record(name, args, kwargs or {}, out)
        return out

    def _unseen(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of torch, in which there are no names for us."""
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(self.trace)

    def _record(self, function: str | nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        several = isinstance(out, (tuple, list)) and not isinstance(out, torch.Size)
        tensors = tuple(out) if several else (out,)
        if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors):
            return
        changes = isinstance(function, str) and in_place(function)
        if not changes and all(id(tensor) in self._values for tensor in tensors):
            return  # it returned what it was given
        read, named = self._seen(tuple(args)), self._seen(kwargs)
        path = "" if isinstance(function, str) else self.paths[function]
        call = Call(function, read, named, self._segment, several=several, path=path)
        self._add(call, tensors)

    def _add(self, call: Call, tensors: tuple[Tensor, ...]) -> None:
        call.results = tuple(TensorValue(x, call, self.scope, nth=n) for n, x in enumerate(tensors))
        self._values |= {id(value.tensor): value for value in call.results}
        self.scope.calls.append(call)

    def _seen(self, arguments: Any) -> Any:
        """Arguments with values in place of tensors, and of long lists what made them."""
        match arguments:
            case Tensor():
                return self._values.get(id(arguments), arguments)
            case int() if 0 < arguments < 2**31 and arguments % self.sizes.rows == 0:
                return self.sizes.of(arguments)  # the length of a tensor
            case list() | tuple() if len(arguments) >= LONG_LIST:
                return self._made.get(id(arguments), arguments)
            case list() | tuple():
                return tuple(map(self._seen, arguments))
            case dict():
                return {name: self._seen(argument) for name, argument in arguments.items()}
        return arguments

    def call(self, module: nn.Module, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a module: as one of torch's, as a class, or unnamed, as a part of its caller."""
        if not torch._C._is_torch_function_enabled():  # within one that is called as a whole
            return plain(module, *args, **kwargs)
        outer, segment, path = self.scope, self._segment, self.paths.get(module)
        holds = any(True for _ in module.parameters())
        if path is None:
            self._segments += 1
            self._segment = segment or self._segments
            out = plain(module, *args, **kwargs)
            self._segment = segment
        elif not within(path, outer.path):  # it is lent: its weights are arguments
            out = plain(module, *args, **kwargs)
        elif written_as(module) or (
            type(module) in TORCH_MODULES and not vars(module).get("base") and holds
        ):
            # One of torch's, or the user's; tables are sums with others' where one is added.
            with torch._C.DisableTorchFunction():
                out = self._unseen(plain, module, *args, **kwargs)
            self._record(module, args, kwargs, out)
        else:
            depth = _depth(sys._getframe()) + 1
            body = self.scope = CallScope(module, path, depth)
            self._segment = 0
            out = plain(module, *args, **kwargs)
            self.scope, self._segment = outer, segment
            tensors = tuple(x for x in tree_leaves(out) if isinstance(x, Tensor))
            body.outputs = [self._values[id(tensor)] for tensor in tensors]
            call = Call(module, (), {}, segment, body=body, several=len(tensors) > 1)
            self._add(call, tensors)  # outside, the result is another value of the same tensor
        return out

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """See which tensors are bound to which names, in frames outside of torch."""
        if event == "call":
            package = frame.f_globals.get("__name__", "")
            if package.split(".")[0] in UNSEEN or package == __name__:
                return None
            self._passed[id(frame)] = dict(frame.f_locals), _depth(frame)
            return self.trace
        passed, depth = self._passed[id(frame)]
        if not frame.f_code.co_name.startswith("<"):  # names in comprehensions tell nothing
            for name, bound in list(frame.f_locals.items()):
                self._bind(name, bound, depth, assigned=passed.get(name) is not bound)
        is_long = isinstance(argument, (list, tuple)) and len(argument) >= LONG_LIST
        if event == "return" and is_long and [*passed] == ["self"]:
            self._made[id(argument)] = LongList(argument, passed["self"], frame.f_code.co_name)
        return self.trace

    def _bind(self, name: str, bound: Any, depth: int, *, assigned: bool) -> None:
        """Note the name of a tensor, and of those in a named tuple."""
        if isinstance(bound, Tensor):
            value, binding = self._values.get(id(bound)), Binding(depth, name, assigned)
            if value and name != "_" and binding not in value.names:
                value.names.append(binding)
        elif isinstance(bound, tuple) and hasattr(bound, "_fields"):
            for field_name, part in zip(bound._fields, bound, strict=True):
                self._bind(field_name, part, depth, assigned=False)


def in_place(function: str) -> bool:
    """Does a method change its tensor?"""
    return function.endswith("_") and not function.endswith("__")


def within(path: str, module: str) -> bool:
    """Does a path lead to a module, or into it?"""
    return not module or path == module or path.startswith(f"{module}.")


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame:
        depth, frame = depth + 1, frame.f_back
    return depth


@contextmanager
def recording(root: nn.Module, sizes: BatchSizes) -> Iterator[Recorder]:
    """Record what happens in the block to the modules of ``root``, on tensors without memory."""
    recorder, plain, before = Recorder(root, sizes), nn.Module.__call__, sys.gettrace()

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return recorder.call(module, plain, args, kwargs)

    # As when a graph is exported: plain functions of torch, for rows of any length.
    exporting = patch.object(torch.compiler, "is_compiling", lambda: True)
    with torch.device("meta"), patch.object(nn.Module, "__call__", call), exporting, recorder:
        sys.settrace(recorder.trace)
        try:
            yield recorder
        finally:
            sys.settrace(before)
