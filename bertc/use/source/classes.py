"""Classes of a file: what a module is made of, and its forward pass."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from torch import nn

from bertc.ir.base import Weight
from bertc.ir.program import MAIN
from bertc.model import Embedding, Linear, Norm
from bertc.model.own import written_as
from bertc.use.source.body import ForwardBody
from bertc.use.source.expressions import Constants, call_expression, code_lines, method
from bertc.use.source.loops import range_expression
from bertc.use.source.recording import TORCH_MODULES, CallScope

PARAMETERS = {
    "token_ids": "", "attention_mask": "ones", "segment_ids": "zeros", "language_ids": "zeros",
}  # fmt: skip
"""Arguments of a program, and what they are where they are left out."""


@dataclass
class Classes:
    """Classes by their text, and the class of every module that has one."""

    scopes: dict[str, CallScope]  # by path
    weights: Mapping[str, Weight]
    constants: Constants
    about: str = ""  # the whole program
    written: dict[str, str] = field(default_factory=dict)  # what follows the name, by name
    made: dict[nn.Module, str] = field(default_factory=dict)  # how a module is made
    containers: dict[str, str] = field(default_factory=dict)
    bases: Mapping[str, str] = field(default_factory=dict)  # base classes by path, of some
    reserved: frozenset[str] = frozenset()  # names of what the user wrote

    @property
    def text(self) -> str:
        """The classes, the outermost first."""
        return "\n\n\n".join(f"class {n}{rest}" for n, rest in reversed(self.written.items()))

    def add(self, module: nn.Module, path: str) -> None:
        """Write the class of a module, after those of its parts."""
        self._add_parts(module, path)
        base, arguments = "nn.Module", ""
        if isinstance(module, nn.ModuleList):
            self.containers[path] = "list"
            base, arguments = "nn.ModuleList", f"[{', '.join(self.made[x] for x in module)}]"
        elif path in self.bases:
            base = self.bases[path]
        elif isinstance(module, (Linear, Embedding)):
            base, _, arguments = self._leaf(module, path).removesuffix(")").partition("(")
        init = [f"super().__init__({arguments})"]
        for name, _ in module.named_parameters(recurse=False):
            if not (arguments and name in ("weight", "bias")):
                init.append(f"self.{name} = {self._parameter(f'{path}.{name}')}")
        for name, child in module.named_children():
            if child in self.made and path not in self.containers:
                init.append(f"self.{name} = {self.made[child]}")
        methods, doc = [method("__init__", [], init)], ""
        if scope := self.scopes.get(path):
            body = ForwardBody(scope, self.containers, self.constants)
            statements = body.statements()
            names = [body.names[value] for value in body.free]
            if scope.keys and {*names} <= {*PARAMETERS}:
                names, statements = with_defaults(names, statements)
            methods.append(method("forward", names, statements))
            doc = re.split(r";|\n", (type(module).__doc__ or "").strip())[0].rstrip(".")
            doc = (f"{doc}." if doc else "") if path else self.about
        lines = [f"({base}):", *([f'    """{doc}"""', ""] if doc else []), *code_lines(methods)]
        self.made[module] = f"{self._named(type(module).__name__, path, lines)}()"

    def _add_parts(self, module: nn.Module, path: str) -> None:
        for name, child in module.named_children():
            if child not in self.made:
                self.add_part(child, f"{path}.{name}".removeprefix("."))

    def add_part(self, module: nn.Module, path: str) -> None:
        """Write the class of a part, if it is none of torch's."""
        called, holds = path in self.scopes, any(True for _ in module.parameters(recurse=False))
        if written := written_as(module):
            part, passed = written
            sizes = {n: self.constants.sizes.get((n, x), repr(x)) for n, x in passed.items()}
            arguments = {n: sizes[n] if n in part.asks else repr(x) for n, x in passed.items()}
            self.made[module] = call_expression(part.code.rpartition(":")[2], [], arguments)
        elif not called and (type(module) in TORCH_MODULES or isinstance(module, Embedding)):
            self.made[module] = self._leaf(module, path)
        elif type(module) is nn.Module and holds:
            self.made[module] = self._bare(module, path)
        elif called or holds:
            self.add(module, path)
        elif any(True for _ in module.parameters()):
            self._add_parts(module, path)
            self.made[module] = self._container(module, path)

    def _bare(self, module: nn.Module, path: str) -> str:
        """Parameters that a module holds, and no more."""
        shapes = {n: self._shape(f"{path}.{n}") for n, _ in module.named_parameters(recurse=False)}
        match list(shapes), [len(shape) for shape in shapes.values()]:
            case ["weight"], [2]:
                return call_expression("nn.Embedding", shapes["weight"])
            case ["weight", "bias"], [1, 1]:
                return call_expression("nn.LayerNorm", shapes["weight"])
        self.containers[path] = "dict"
        parts = (f'"{name}": {self._parameter(f"{path}.{name}")}' for name in shapes)
        return f"nn.ParameterDict({{{', '.join(parts)}}})"

    def _container(self, module: nn.Module, path: str) -> str:
        """A list or a dictionary of modules, those that are made alike in a comprehension."""
        names = [name for name, child in module.named_children() if child in self.made]
        parts = [self.made[module.get_submodule(name)] for name in names]
        if names != [str(number) for number in range(len(names))]:
            self.containers[path] = "dict"
            pairs = (f'"{name}": {made}' for name, made in zip(names, parts, strict=True))
            return f"nn.ModuleDict({{{', '.join(pairs)}}})"
        self.containers[path] = "list"
        runs, first = list[str](), 0
        for made, same in groupby(parts):
            end = first + len(list(same))
            turns = range_expression(first, end, self.constants.layers)
            runs.append(f"*[{made} for _ in {turns}]" if end > first + 1 else made)
            first = end
        if len(runs) == 1 and runs[0][0] == "*":
            return f"nn.ModuleList({runs[0][1:]})"
        return f"nn.ModuleList([{', '.join(runs)}])"

    def _named(self, name: str, path: str, lines: list[str]) -> str:
        """The name of a class with these lines, which is written unless it is there."""
        text, network = "\n".join(lines), path.split(".")[0]
        for known, written in self.written.items():
            if written == text:
                return known
        if network not in (MAIN, "heads", "") and name in self.written:
            name = f"{network.title()}{name}"
        names = (name, *(f"{name}{number}" for number in range(2, len(self.written) + 2)))
        name = next(free for free in names if free not in {*self.written, *self.reserved})
        self.written[name] = text
        return name

    def _parameter(self, path: str) -> str:
        return f"nn.Parameter({call_expression('torch.zeros', self._shape(path))})"

    def _shape(self, path: str) -> list[str]:
        weight, names = self.weights[path], self.constants.sizes
        pairs = zip(weight.axes, weight.shape, strict=True)
        return [names.get((axis, size), str(size)) for axis, size in pairs]

    def _leaf(self, module: nn.Module, path: str) -> str:
        """The call that makes one of torch's modules."""
        match module:
            case Linear():
                bias = {} if module.bias is not None else {"bias": "False"}
                return call_expression("nn.Linear", self._shape(f"{path}.weight")[::-1], bias)
            case Embedding():
                return call_expression("nn.Embedding", self._shape(f"{path}.weight"))
            case Norm():
                settings = {"eps": self.constants.number(module.eps)}
                if module.centred and module.bias is None:
                    settings["bias"] = "False"
                kind = "nn.LayerNorm" if module.centred else "nn.RMSNorm"
                return call_expression(kind, self._shape(f"{path}.weight"), settings)
        raise AssertionError(f"{path} is none of torch's modules")


def with_defaults(names: list[str], statements: list[str]) -> tuple[list[str], list[str]]:
    """Arguments of a program, all but the first of which may be left out."""
    first, *later = [name for name in PARAMETERS if name in names]
    defaults = [
        f"if {name} is None:\n    {name} = torch.{PARAMETERS[name]}_like({first})" for name in later
    ]
    return [first, *(f"{name}=None" for name in later)], [*defaults, *statements]


def scopes_in(scope: CallScope) -> dict[str, CallScope]:
    """The scopes within a scope, by their paths; of several calls of a module the first."""
    result = {scope.path: scope}
    for call in scope.calls:
        if call.body:
            for path, inner in scopes_in(call.body).items():
                result.setdefault(path, inner)
    return result
