"""Classes of a file: what a module is made of, and its forward pass."""

import ast
import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from torch import nn

from bertc.ir.base import Weight
from bertc.ir.program.network import MAIN
from bertc.model.norm import Norm
from bertc.model.weights import Embedding, Linear
from bertc.use.source.body import ForwardBody
from bertc.use.source.constants import Constants
from bertc.use.source.expressions import call_node, dotted, dotted_statement, literal
from bertc.use.source.recording import TORCH_MODULES, CallScope

PARAMETERS = {
    "token_ids": "",
    "attention_mask": "ones",
    "segment_ids": "zeros",
    "language_ids": "zeros",
}
"""Arguments of a program, and what they are where they are left out."""


OF_PROGRAM = "All networks of the program on the same rows, and the scores of their heads."


@dataclass
class Classes:
    """Classes by their text, and the class of every module that has one."""

    scopes: dict[str, CallScope]  # by path
    weights: Mapping[str, Weight]
    constants: Constants
    written: list[ast.ClassDef] = field(default_factory=list)
    made: dict[nn.Module, ast.expr] = field(default_factory=dict)  # how a module is made
    containers: dict[str, str] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)  # base classes of parts of layers

    def add(self, module: nn.Module, path: str) -> None:
        """Write the class of a module, after those of its parts."""
        self.add_parts(module, path)
        init: list[ast.stmt] = [dotted_statement("super().__init__()")]
        if isinstance(module, nn.ModuleList):
            self.containers[path] = "list"
        base, first = self._base(module, path)
        if first:
            init = [first]
        of_torch = {"weight", "bias"} if first else set()
        for name, _ in module.named_parameters(recurse=False):
            if name not in of_torch:
                init.append(self._assigned(name, self._parameter(f"{path}.{name}")))
        for name, child in module.named_children():
            if child in self.made and path not in self.containers:
                init.append(self._assigned(name, self.made[child]))
        body: list[ast.stmt] = [ast.FunctionDef("__init__", _arguments(["self"]), init, [])]
        scope = self.scopes.get(path)
        if scope:
            text = ForwardBody(scope, self.containers, self.constants)
            statements = text.statements()
            names = [text.names[value] for value in text.free]
            if scope.keys:
                names, statements = with_defaults(names, statements)
            body.append(ast.FunctionDef("forward", _arguments(["self", *names]), statements, []))
        doc = re.split(r";|\n", (type(module).__doc__ or "").strip())[0].rstrip(".")
        doc = f"{doc}." if path else OF_PROGRAM
        if scope and doc:
            body.insert(0, ast.Expr(ast.Constant(doc)))
        self._write(module, path, ast.ClassDef(type(module).__name__, [base], [], body, []))

    def add_parts(self, module: nn.Module, path: str) -> None:
        """Write the classes of a module's parts."""
        for name, child in module.named_children():
            if child not in self.made:
                self.add_part(child, f"{path}.{name}".removeprefix("."))

    def add_part(self, module: nn.Module, path: str) -> None:
        """Write the class of a part, if it is none of torch's."""
        called = path in self.scopes
        if not called and (type(module) in TORCH_MODULES or isinstance(module, Embedding)):
            self.made[module] = self._leaf(module, path)
        elif called or (isinstance(module, Linear) or list(module.parameters(recurse=False))):
            if type(module) is nn.Module:
                self.made[module] = self._bare(module, path)
                return
            self.add(module, path)
        elif list(module.parameters()):
            self._container(module, path)

    def _bare(self, module: nn.Module, path: str) -> ast.expr:
        """Parameters that a module holds, and no more."""
        shapes = {n: self._shape(f"{path}.{n}") for n, _ in module.named_parameters(recurse=False)}
        match list(shapes), [len(shape) for shape in shapes.values()]:
            case ["weight"], [2]:
                return _made("nn.Embedding", shapes["weight"], {})
            case ["weight", "bias"], [1, 1]:
                return _made("nn.LayerNorm", shapes["weight"], {})
        self.containers[path] = "dict"
        parts = [self._parameter(f"{path}.{name}") for name in shapes]
        return call_node(
            dotted("nn.ParameterDict"), [ast.Dict([ast.Constant(name) for name in shapes], parts)]
        )

    def _container(self, module: nn.Module, path: str) -> None:
        children = dict(module.named_children())
        listed = list(children) == [str(number) for number in range(len(children))]
        self.containers[path] = "list" if listed else "dict"
        for name, child in children.items():
            if child not in self.made:
                self.add_part(child, f"{path}.{name}")
        parts = {n: self.made[child] for n, child in children.items() if child in self.made}
        if not listed:
            table = ast.Dict([ast.Constant(name) for name in parts], list(parts.values()))
            self.made[module] = call_node(dotted("nn.ModuleDict"), [table])
            return
        runs: list[ast.expr] = []
        for _, same in groupby(enumerate(parts.values()), key=lambda pair: ast.dump(pair[1])):
            run = list(same)
            whole = len(run) == len(parts)
            runs.append(self._run([made for _, made in run], run[0][0], whole=whole))
        items = runs[0] if isinstance(runs[0], ast.ListComp) else ast.List(runs)
        self.made[module] = call_node(dotted("nn.ModuleList"), [items])

    def _run(self, made: list[ast.expr], first: int, *, whole: bool) -> ast.expr:
        """Modules that are made alike, as they stand in a list."""
        if len(made) == 1:
            return made[0]
        end = first + len(made)
        last = "LAYERS" if end == self.constants.layers else str(end)
        turns = dotted(f"range({first}, {last})" if first else f"range({last})")
        over = [ast.comprehension(ast.Name("_"), turns, [], 0)]
        return ast.ListComp(made[0], over) if whole else ast.Starred(ast.ListComp(made[0], over))

    def _write(self, module: nn.Module, path: str, written: ast.ClassDef) -> None:
        """Keep a class, unless one of the same text is there."""
        for other in self.written:
            if ast.dump(_unnamed(other)) == ast.dump(_unnamed(written)):
                self.made[module] = call_node(ast.Name(other.name), [])
                return
        name, number = written.name, 2
        network = path.split(".")[0]
        if network not in (MAIN, "heads", "") and any(o.name == name for o in self.written):
            written.name = name = f"{network.title()}{name}"
        while any(other.name == written.name for other in self.written):
            written.name, number = f"{name}{number}", number + 1
        self.written.append(written)
        self.made[module] = call_node(ast.Name(written.name), [])

    def _assigned(self, name: str, value: ast.expr) -> ast.stmt:
        return ast.Assign([ast.Attribute(ast.Name("self"), name)], value)

    def _parameter(self, path: str) -> ast.expr:
        return call_node(
            dotted("nn.Parameter"), [call_node(dotted("torch.zeros"), self._shape(path))]
        )

    def _shape(self, path: str) -> list[ast.expr]:
        weight = self.weights[path]
        return [
            dotted(self.constants.sizes.get((axis, size), str(size)))
            for axis, size in zip(weight.axes, weight.shape, strict=True)
        ]

    def _base(self, module: nn.Module, path: str) -> tuple[ast.expr, ast.stmt | None]:
        """The base class, and its initialisation where it is one of torch's modules."""
        if isinstance(module, nn.ModuleList):
            parts = ast.List([self.made[child] for child in module])
            return dotted("nn.ModuleList"), ast.Expr(call_node(dotted("super().__init__"), [parts]))
        if self.constants.hub and path in self.layers:
            return dotted(self.layers[path]), None
        if not isinstance(module, (Linear, Embedding)):
            return dotted("nn.Module"), None
        leaf = self._leaf(module, path)
        assert isinstance(leaf, ast.Call)
        return leaf.func, ast.Expr(ast.Call(dotted("super().__init__"), leaf.args, leaf.keywords))

    def _leaf(self, module: nn.Module, path: str) -> ast.expr:
        """The call that makes one of torch's modules."""
        match module:
            case Linear():
                shape = self._shape(f"{path}.weight")[::-1]
                bias: dict[str, Any] = {} if module.bias is not None else {"bias": False}
                return _made("nn.Linear", shape, bias)
            case Embedding():
                return _made("nn.Embedding", self._shape(f"{path}.weight"), {})
            case Norm():
                affine = module.weight is not None
                width = self._shape(f"{path}.weight") if affine else [literal(0)]
                settings: dict[str, Any] = {"eps": self.constants.number(module.eps)}
                if not affine:
                    settings["elementwise_affine"] = False
                elif module.centred and module.bias is None:
                    settings["bias"] = False
                return _made("nn.LayerNorm" if module.centred else "nn.RMSNorm", width, settings)
        raise AssertionError(f"{path} is none of torch's modules")


def _made(name: str, args: list[ast.expr], settings: Mapping[str, Any]) -> ast.expr:
    written = {k: v if isinstance(v, ast.expr) else literal(v) for k, v in settings.items()}
    return call_node(dotted(name), args, written)


def _unnamed(written: ast.ClassDef) -> ast.ClassDef:
    copied = copy.copy(written)
    copied.name = ""
    return copied


def _arguments(names: Iterable[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def with_defaults(names: list[str], statements: list[ast.stmt]) -> tuple[list[str], list[ast.stmt]]:
    """Arguments of a program, all but the first of which may be left out."""
    ordered = [name for name in PARAMETERS if name in names]
    defaults = [
        dotted_statement(
            f"if {name} is None:\n    {name} = torch.{PARAMETERS[name]}_like(token_ids)"
        )
        for name in ordered[1:]
    ]
    return [ordered[0], *(f"{name}=None" for name in ordered[1:])], [*defaults, *statements]


def scopes_in(scope: CallScope) -> dict[str, CallScope]:
    """The scopes within a scope, by their paths; of several calls of a module the first."""
    result = {scope.path: scope}
    for call in scope.calls:
        if call.body:
            for path, inner in scopes_in(call.body).items():
                result.setdefault(path, inner)
    return result
