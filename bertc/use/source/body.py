"""The statements of one ``forward``, from what was recorded in it."""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import torch
from torch import nn

from bertc.use.source.axes import AxisNames
from bertc.use.source.constants import Constants
from bertc.use.source.expressions import (
    call_node,
    code,
    dotted,
    dotted_statement,
    literal,
    operation,
    written_arguments,
)
from bertc.use.source.loops import rolled
from bertc.use.source.reads import read_by, reads
from bertc.use.source.recording import (
    SAME,
    Call,
    CallScope,
    LongList,
    TensorValue,
)
from bertc.use.source.sizes import BATCH_AXES

LONG_PART = 64
"""Columns of an expression from which on it is a line for itself."""
NESTED = 84
"""Columns of a line up to which a value with a name of one word is nested in it."""


ATTENTION_CALL = "torch.nn.functional.scaled_dot_product_attention"
NOT_NAMES = {"self", "F", "nn", "torch", *BATCH_AXES}


class ForwardBody:
    """The text of one scope: names of its values, and its statements."""

    def __init__(
        self, scope: CallScope, containers: Mapping[str, str], constants: Constants
    ) -> None:
        read = reads(scope)
        self.scope, self.free, self.calls, self.uses = scope, read.free, scope.calls, read.uses
        self._containers, self._constants = containers, constants
        self.names: dict[TensorValue, str] = {}
        self._sizes = AxisNames(self.free, self.names)
        self.origins: dict[ast.stmt, str] = {}
        """Statements with the docstrings of the functions that they are of."""
        self._current: dict[str, TensorValue] = {}  # by the names that they have at a statement
        self._bound = set(self._bindings())
        self.names |= {v: self._called(v) for v in (*self.free, *self._bound)}
        self._current = {self.names[value]: value for value in self.free}
        for call in self.calls:
            value = call.results[0]
            if value in self._bound and self._nests(call):
                self._bound.discard(value)
            elif self.uses[value] == 1 and value not in self._bound and self._is_long(call):
                self._bound.add(value)
                self.names[value] = self._called(value)
        self._name()

    def _bindings(self) -> Iterator[TensorValue]:
        """Values with a variable: those with names in the source, and those that are read twice."""
        for call in (call for call in self.calls if call.function != SAME):
            several = sum(value in self.uses for value in call.results) > 1
            for value in call.results:
                assigned = self._assigned(value)
                if several or self.uses[value] > 1 or self._returns_layers(call):
                    yield value
                elif self.uses[value] and assigned:
                    if value in self.scope.outputs and not call.segment and self.scope.path:
                        continue
                    yield value

    def _returns_layers(self, call: Call) -> bool:
        """Does it return the states of layers too?"""
        body = call.body
        return self._constants.hub and body is not None and any(c.segment for c in body.calls)

    def _assigned(self, value: TensorValue) -> str:
        """The name that the outermost frame of the scope assigns it to, or ''."""
        inner = [b for b in value.names if b.depth >= self.scope.depth and b.assigned]
        return min(inner, key=lambda b: b.depth).name if inner else ""

    def _called(self, value: TensorValue) -> str:
        """The name of a value: an assigned one, else that of a result, an argument or a field."""
        inner = [b for b in value.names if b.depth >= self.scope.depth]
        assigned, results = self._assigned(value), self.scope.outputs
        if self.scope.keys and value in results and "_" not in assigned:
            return re.sub(r"\W", "_", self.scope.keys[results.index(value)])
        if assigned:
            return assigned
        if inner:
            return min(inner, key=lambda b: b.depth).name
        if value.path:
            steps = value.path.split(".")
            return "_".join(steps[-2:]) if steps[-1] in ("weight", "bias") else steps[-1]
        return max(value.names, key=lambda b: b.depth).name if value.names else "y"

    def _name(self) -> None:
        """Give names; one is used again once its value is not read any more."""
        last: dict[TensorValue, int] = {value: len(self.calls) for value in self.scope.outputs}
        for number in reversed(range(len(self.calls))):
            call = self.calls[number]
            # What is nested is read where its reader is.
            nested = not any(value in self._bound for value in call.results)
            end = max(last.get(value, number) for value in call.results) if nested else number
            for value in read_by(call):
                last[value] = max(last.get(value, -1), end)
        wanted, self.names = self.names, {}
        self._sizes = AxisNames(self.free, self.names)
        until = dict.fromkeys(NOT_NAMES, 2 * len(self.calls))
        for value in self.free:
            self._give(value, wanted[value], -1, last[value], until)
        for number, call in enumerate(self.calls):
            for value in call.results:
                if value in self._bound:
                    self._give(value, wanted[value], number, last.get(value, number), until)

    def _give(
        self, value: TensorValue, wanted: str, at: int, end: int, until: dict[str, int]
    ) -> None:
        name, number = wanted, 2
        while until.get(name, -2) > at:
            name, number = f"{wanted}{number}", number + 1
        until[name] = end
        self.names[value] = name

    def statements(self) -> list[ast.stmt]:
        """The statements, those of layers that are alike as loops."""
        made: list[tuple[int, ast.stmt]] = []
        self._current = {self.names[value]: value for value in self.free}
        for call in self.calls:
            targets = [value for value in call.results if value in self._bound]
            if targets:
                statement = self._statement(call, targets)
                self.origins[statement] = call.origin
                made.append((call.segment, statement))
                self._current |= {self.names[value]: value for value in targets}
        returned = [self.value(value) for value in self.scope.outputs]
        if self._constants.hub and any(segment for segment, _ in made):
            made = self._collecting(made)
            returned.append(ast.Name("layers"))
        looped = rolled(made, self._constants.layers)
        last = ast.Return(returned[0] if len(returned) == 1 else ast.Tuple(returned))
        if keys := list(self.scope.keys):
            if any(map(self._returns_layers, self.calls)):
                keys, returned = [*keys, "layers"], [*returned, ast.Name("layers")]
            last = ast.Return(ast.Dict([ast.Constant(key) for key in keys], returned))
        return [*self._sizes.statements(), *looped, last]

    def _collecting(self, made: list[tuple[int, ast.stmt]]) -> list[tuple[int, ast.stmt]]:
        """The statements with a list of the states before the first layer and after each."""
        first = next(call for call in self.calls if call.segment)
        begun = next(v for v in read_by(first) if v.call and v.tensor.ndim == 3)
        result: list[tuple[int, ast.stmt]] = []
        for segment, group in groupby(made, key=lambda pair: pair[0]):
            result += group
            if segment:
                last = result[-1][1]
                assert isinstance(last, ast.Assign), "a layer ends with its states"
                name = code(last.targets[0])
                result.append((segment, dotted_statement(f"layers.append({name})")))
        place = next(n for n, (segment, _) in enumerate(result) if segment)
        result.insert(place, (0, dotted_statement(f"layers = [{self.names[begun]}]")))
        return result

    def _is_long(self, call: Call) -> bool:
        """Is its expression a line for itself?"""
        returned = call.results[0] in self.scope.outputs
        return not returned and len(code(self._call(call))) > LONG_PART

    def _statement(self, call: Call, targets: list[TensorValue]) -> ast.stmt:
        if call.several and len(targets) > 1:
            names: list[ast.expr] = [ast.Name(self.names.get(v, "_")) for v in call.results]
            return ast.Assign([ast.Tuple(names)], self._call(call))
        if self._returns_layers(call):
            both = ast.Tuple([ast.Name(self.names[targets[0]]), ast.Name("layers")])
            return ast.Assign([both], self._call(call))
        return ast.Assign([ast.Name(self.names[targets[0]])], self._result(targets[0]))

    def _nests(self, call: Call) -> bool:
        """Is its value of one word, read once, in a line that stays short with it?"""
        value = call.results[0]
        if self.uses[value] != 1 or value in self.scope.outputs or "_" in self.names[value]:
            return False
        if self._returns_layers(call):
            return False
        reader = next(c for c in self.calls if value in read_by(c))
        if reader.segment != call.segment:
            return False
        self._bound.discard(value)
        target = max(len(self.names.get(result, "")) for result in reader.results)
        short = target + len(code(self._call(reader))) <= NESTED
        self._bound.add(value)
        return short

    # Expressions

    def value(self, value: TensorValue) -> ast.expr:
        """A value: its name, or the expression that makes it."""
        if value in self._bound or value in self.free:
            return ast.Name(self.names[value])
        return self.path(value.path) if value.path else self._result(value)

    def _result(self, value: TensorValue) -> ast.expr:
        assert value.call is not None, "inputs have names"
        node = self._call(value.call)
        return ast.Subscript(node, ast.Constant(value.nth)) if value.call.several else node

    def path(self, path: str) -> ast.expr:
        """A module or parameter of the scope's module."""
        node, steps = ast.Name("self"), path.split(".")
        expression: ast.expr = node
        for number in range(len(self.scope.path.split(".")) if self.scope.path else 0, len(steps)):
            step = steps[number]
            match self._containers.get(".".join(steps[:number]), ""):
                case "list":
                    expression = ast.Subscript(expression, ast.Constant(int(step)))
                case "dict":
                    expression = ast.Subscript(expression, ast.Constant(step))
                case _:
                    expression = ast.Attribute(expression, step)
        return expression

    def _call(self, call: Call) -> ast.expr:
        """The expression of a call."""
        if call.body:
            return call_node(self.path(call.body.path), [self.value(v) for v in read_by(call)])
        args = [self._argument(argument) for argument in call.args]
        if isinstance(call.function, nn.Module):
            inside = call.path != self.scope.path  # else it is the module's own product
            return call_node(self.path(call.path) if inside else dotted("super().forward"), args)
        if call.function == SAME:
            return args[0]
        if call.function == "torch.nn.functional.dropout":
            rate = self._constants.rate(call.kwargs.get("p", (*call.args[1:], 0.5)[0]))
            return call_node(dotted("F.dropout"), [args[0], rate, dotted("self.training")])
        if call.function == "torch.unflatten":
            args[2:] = [ast.Tuple([self._part(size) for size in call.args[2]])]
        plain, named = written_arguments(call.function, call.args, call.kwargs)
        keywords = {key: self._argument(argument) for key, argument in named.items()}
        if "dropout_p" in keywords:
            rate = self._constants.rate(named["dropout_p"])
            keywords["dropout_p"] = ast.IfExp(dotted("self.training"), rate, ast.Constant(0.0))
        made = operation(call.function, args[: len(plain)], keywords)
        if self._constants.hub and call.function == ATTENTION_CALL and isinstance(made, ast.Call):
            made.func = dotted("self.attend")
        return made

    def _argument(self, argument: Any) -> ast.expr:
        match argument:
            case TensorValue():
                return self.value(argument)
            case LongList() if argument.name:
                return call_node(dotted(argument.name), [])
            case LongList():
                return literal(argument.numbers)
            case torch.Size():
                return literal(tuple(argument), self._sizes.written)
            case tuple() | list():
                made = ast.Tuple if isinstance(argument, tuple) else ast.List
                return made([self._argument(part) for part in argument])
            case slice():
                ends = (argument.start or None, argument.stop, argument.step)
                return ast.Slice(*(None if end is None else self._argument(end) for end in ends))
            case torch.device():
                return ast.Attribute(self._like(), "device")
            case float():
                return self._constants.number(argument)
            case torch.bfloat16:
                return ast.Attribute(self._like(), "dtype")
        return literal(argument, self._sizes.written)

    def _part(self, size: Any) -> ast.expr:
        """One of the two sizes of the vectors of all heads."""
        for name in ("HEADS", "HEAD_DIM"):
            if isinstance(size, int) and size == self._constants.values.get(name):
                return ast.Name(name)
        return literal(size, self._sizes.written)

    def _like(self) -> ast.expr:
        """A tensor of the dtype and the device that are computed with."""
        for name, value in self._current.items():
            if value.tensor.dtype == torch.bfloat16:
                return ast.Name(name)
        for path, _ in self.scope.module.named_parameters():
            return self.path(f"{self.scope.path}.{path}".removeprefix("."))
        return ast.Name(next(iter(self._current), "self"))
