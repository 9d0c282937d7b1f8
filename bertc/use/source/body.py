"""The statements of one ``forward``, from what was recorded in it."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import nn

from bertc.use.source import expressions
from bertc.use.source.expressions import Constants, call_expression
from bertc.use.source.loops import roll_up
from bertc.use.source.recording import Call, CallScope, LongList, TensorValue
from bertc.use.source.sizes import BATCH_AXES, BatchSize

LONG_PART = 64
"""Columns of an expression from which on it is a line for itself."""
NESTED = 84
"""Columns of a line up to which a value with a name of one word is nested in it."""

ATTENTION_CALL = "torch.nn.functional.scaled_dot_product_attention"
NOT_NAMES = {"self", "F", "nn", "torch", *BATCH_AXES}


class AxisNames:
    """Axes of the batch that statements read, from inputs that have them."""

    def __init__(self, free: Sequence[TensorValue], names: Mapping[TensorValue, str]) -> None:
        self._free, self._names = free, names
        self._read = dict[str, tuple[str, int]]()

    def statements(self) -> list[str]:
        """Assignments of the axes that were read."""
        match sorted(self._read.items()):
            case [("b", (one, 0)), ("s", (other, 1))] if one == other:
                return [f"b, s = {one}.shape[:2]"]
            case read:
                return [f"{axis} = {name}.shape[{number}]" for axis, (name, number) in read]

    def expression(self, size: BatchSize) -> str:
        """A size: as that of an input where it is no single axis, else by names of axes."""
        if not size.node.isidentifier() and (place := self._place(size)):
            return f"{place[0]}.shape[{place[1]}]"
        for axis, number in size.sizes.axes.items():
            if re.search(rf"\b{axis}\b", size.node):
                place = self._place(number)
                assert place, f"no input has the size {axis}"
                self._read.setdefault(axis, place)
        return size.node

    def _place(self, number: int) -> tuple[str, int] | None:
        """The input and its axis that have a size."""
        for value in self._free:
            if number in value.tensor.shape:
                return self._names[value], value.tensor.shape.index(number)
        return None


class ForwardBody:
    """The text of one scope: names of its values, and its statements."""

    def __init__(self, scope: CallScope, containers: Mapping[str, str], known: Constants) -> None:
        self.scope, self.calls = scope, scope.calls
        self.free, self.uses = scope.free_values(), Counter(scope.all_read())
        self._containers, self._constants = containers, known
        self.names: dict[TensorValue, str] = {}
        self._sizes = AxisNames(self.free, self.names)
        self._bound = set(self._bindings())
        self.names |= {v: self._called(v) for v in (*self.free, *self._bound)}
        # By the names that they have at a statement.
        self._current = {self.names[value]: value for value in self.free}
        for call in self.calls:
            value = call.results[0]
            if value in self._bound:
                if self._nests(call):
                    self._bound.discard(value)
                continue
            nested = self.uses[value] == 1 and value not in scope.outputs
            if nested and len(expressions.code(self._call(call))) > LONG_PART:
                self._bound.add(value)
                self.names[value] = self._called(value)
        self._name()

    def _bindings(self) -> Iterator[TensorValue]:
        """Values with a variable: those with names in the source, and those that are read twice."""
        for call in (call for call in self.calls if not call.renames):
            several = sum(value in self.uses for value in call.results) > 1
            for value in call.results:
                returned = value in self.scope.outputs and not call.segment and self.scope.path
                named = self.uses[value] and self._assigned(value) and not returned
                if several or named or self.uses[value] > 1 or self._returns_layers(call):
                    yield value

    def _returns_layers(self, call: Call) -> bool:
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
        if inner:
            return min(inner, key=lambda b: (not b.assigned, b.depth)).name
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
            for value in call.read:
                last[value] = max(last.get(value, -1), end)
        names, self.names = self.names, {}
        self._sizes = AxisNames(self.free, self.names)
        until = dict.fromkeys(NOT_NAMES, 2 * len(self.calls))
        for value in self.free:
            self._give(value, names[value], -1, last[value], until)
        for number, call in enumerate(self.calls):
            for value in call.results:
                if value in self._bound:
                    self._give(value, names[value], number, last.get(value, number), until)

    def _give(
        self, value: TensorValue, plain: str, index: int, end: int, until: dict[str, int]
    ) -> None:
        name, number = plain, 2
        while until.get(name, -2) > index:
            name, number = f"{plain}{number}", number + 1
        until[name] = end
        self.names[value] = name

    def statements(self) -> list[str]:
        """The statements, those of layers that are alike as loops."""
        made: list[tuple[int, str]] = []
        self._current = {self.names[value]: value for value in self.free}
        for call in self.calls:
            targets = [value for value in call.results if value in self._bound]
            if targets:
                made.append((call.segment, self._statement(call, targets)))
                self._current |= {self.names[value]: value for value in targets}
        returned = [self.value(value) for value in self.scope.outputs]
        keys = list(self.scope.keys)
        if self._constants.hub and any(segment for segment, _ in made):
            made = self._collecting(made)
            returned.append("layers")
        elif keys and any(map(self._returns_layers, self.calls)):
            keys, returned = [*keys, "layers"], [*returned, "layers"]
        looped = roll_up(made, self._constants.layers)
        result = returned[0] if len(returned) == 1 else expressions.tuple_expression(returned)
        if keys:
            pairs = (f'"{key}": {value}' for key, value in zip(keys, returned, strict=True))
            result = f"{{{', '.join(pairs)}}}"
        return [*self._sizes.statements(), *looped, f"return {result}"]

    def _collecting(self, made: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """The statements with a list of the states before the first layer and after each."""
        first = next(call for call in self.calls if call.segment)
        begun = next(v for v in first.read if v.call and v.tensor.ndim == 3)
        result: list[tuple[int, str]] = []
        for segment, group in groupby(made, key=lambda pair: pair[0]):
            result += group
            if segment:  # a layer ends with its states
                result.append((segment, f"layers.append({result[-1][1].partition(' = ')[0]})"))
        place = next(n for n, (segment, _) in enumerate(result) if segment)
        result.insert(place, (0, f"layers = [{self.names[begun]}]"))
        return result

    def _statement(self, call: Call, targets: list[TensorValue]) -> str:
        if call.several and len(targets) > 1:
            names = [self.names.get(value, "_") for value in call.results]
            return f"{', '.join(names)} = {self._call(call)}"
        name = self.names[targets[0]]
        if self._returns_layers(call):
            return f"{name}, layers = {self._call(call)}"
        return f"{name} = {self._result(targets[0])}"

    def _nests(self, call: Call) -> bool:
        """Is its value of one word, read once, in a line that stays short with it?"""
        value = call.results[0]
        if self.uses[value] != 1 or value in self.scope.outputs or "_" in self.names[value]:
            return False
        reader = next(c for c in self.calls if value in c.read)
        if self._returns_layers(call) or reader.segment != call.segment:
            return False
        self._bound.discard(value)
        target = max(len(self.names.get(result, "")) for result in reader.results)
        short = target + len(expressions.code(self._call(reader))) <= NESTED
        self._bound.add(value)
        return short

    def value(self, value: TensorValue) -> str:
        """A value: its name, or the expression that makes it."""
        if value in self._bound or value in self.free:
            return self.names[value]
        return self.path(value.path) if value.path else self._result(value)

    def _result(self, value: TensorValue) -> str:
        assert value.call is not None, "inputs have names"
        text = self._call(value.call)
        return f"({text})[{value.nth}]" if value.call.several else text

    def path(self, path: str) -> str:
        """A module or parameter of the scope's module."""
        text, steps = "self", path.split(".")
        for number in range(len(self.scope.path.split(".")) if self.scope.path else 0, len(steps)):
            step, kind = steps[number], self._containers.get(".".join(steps[:number]), "")
            text += {"list": f"[{step}]", "dict": f'["{step}"]'}.get(kind, f".{step}")
        return text

    def _call(self, call: Call) -> str:
        if call.body:
            return call_expression(self.path(call.body.path), [*map(self.value, call.read)])
        args = [self._argument(argument) for argument in call.args]
        if isinstance(call.function, nn.Module):
            inside = call.path != self.scope.path  # else it is the module's own product
            return call_expression(self.path(call.path) if inside else "super().forward", args)
        if call.renames:
            return args[0]
        if call.function == "torch.nn.functional.dropout":
            rate = self._constants.rate(call.kwargs.get("p", (*call.args[1:], 0.5)[0]))
            return call_expression("F.dropout", [args[0], rate, "self.training"])
        if call.function == "torch.unflatten":
            args[2:] = [expressions.tuple_expression([self._part(size) for size in call.args[2]])]
        plain, named = expressions.plain_arguments(call.function, call.args, call.kwargs)
        keywords = {key: self._argument(argument) for key, argument in named.items()}
        if "dropout_p" in keywords:
            rate = self._constants.rate(named["dropout_p"])
            keywords["dropout_p"] = f"{rate} if self.training else 0.0"
        if self._constants.hub and call.function == ATTENTION_CALL:
            return call_expression("self.attend", args[: len(plain)], keywords)
        return expressions.operation(call.function, args[: len(plain)], keywords)

    def _argument(self, argument: Any) -> str:
        match argument:
            case TensorValue():
                return self.value(argument)
            case LongList():
                return f"{argument.name}()"
            case tuple():
                return expressions.tuple_expression([self._argument(part) for part in argument])
            case slice(start=start, stop=stop, step=step):
                ends = ("" if x is None else self._argument(x) for x in (start or None, stop, step))
                return ":".join(ends).removesuffix(":" if step is None else "")
            case torch.device():
                return f"{self._like()}.device"
            case float():
                return self._constants.number(argument)
            case torch.bfloat16:
                return f"{self._like()}.dtype"
        return expressions.literal(argument, self._sizes.expression)

    def _part(self, size: Any) -> str:
        """One of the two sizes of the vectors of all heads."""
        for name in ("HEADS", "HEAD_DIM"):
            if isinstance(size, int) and size == self._constants.values.get(name):
                return name
        return expressions.literal(size, self._sizes.expression)

    def _like(self) -> str:
        """A tensor of the dtype and the device that are computed with."""
        for name, value in self._current.items():
            if value.tensor.dtype == torch.bfloat16:
                return name
        for path, _ in self.scope.module.named_parameters():
            return self.path(f"{self.scope.path}.{path}".removeprefix("."))
        return next(iter(self._current), "self")
