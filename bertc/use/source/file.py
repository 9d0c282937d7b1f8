"""``bertc build --emit python``: the file of a program, with its first weights."""

import ast
import inspect
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import assert_never

from torch import nn

from bertc.base.storage.plain_file import read_text
from bertc.cost import estimate, units
from bertc.ir import base
from bertc.ir.base import Constant, FanIn, Glorot, Node, Normal, TruncatedNormal, Uniform, Weight
from bertc.ir.program import Resolved, model_weights
from bertc.model.own import written_as
from bertc.use.source.classes import Classes, scopes_in
from bertc.use.source.expressions import code, constants_of, declare_constants
from bertc.use.source.outputs import program_outputs, record
from bertc.use.source.recording import CallScope, LongList


@cache
def forms() -> dict[str, str]:
    """The parts that files of all programs share, by their names in ``texts.toml``."""
    return tomllib.loads(read_text(Path(__file__).with_name("texts.toml"), MOST_BYTES))


def initial_function(weights: Iterable[Weight]) -> str:
    """A function that sets first weights: exceptions by name, then matrices, then vectors."""
    weights = tuple(weights)
    drawn = [weight for weight in weights if not isinstance(weight.init, base.Constructed)]
    several = Counter(end for end, _ in {(_end(weight.name), _call(weight)) for weight in drawn})
    calls = {
        (len(w.shape) > 1, _end(w.name) if several[_end(w.name)] == 1 else w.name): _call(w)
        for w in drawn
    }
    exceptions, usual = dict[str, str](), dict[str, str]()
    for matrix, test in ((True, "elif weight.ndim > 1:"), (False, "else:")):
        if of_kind := [call for key, call in calls.items() if key[0] is matrix]:
            usual[test] = max(dict.fromkeys(of_kind), key=of_kind.count)
    for (matrix, end), call in calls.items():
        if call != usual["elif weight.ndim > 1:" if matrix else "else:"]:
            others = {name for (_, name), its in calls.items() if its != call}
            exceptions.setdefault(f'elif name.endswith("{_shortest(end, others)}"):', call)
    lines = [f"{test}\n    nn.init.{call}" for test, call in (exceptions | usual).items()]
    text = textwrap.indent("\n".join(lines).removeprefix("el"), " " * 8)
    passed = forms()["own_values"] if len(drawn) < len(weights) else ""
    return f"{forms()['first_values']}{passed}{text}\n"


def _end(name: str) -> str:
    """The last steps of a name, without numbers."""
    return ".".join(step for step in name.split(".")[-3:] if not step.isdigit())


def _shortest(end: str, names: set[str]) -> str:
    """The shortest end of a name that none of the others has."""
    steps = re.split(r"(?<=[._])", end)
    ends = ("".join(steps[-count:]) for count in range(1, len(steps)))
    return next((e for e in ends if not any(name.endswith(e) for name in names)), end)


def _call(weight: Weight) -> str:
    """The function of ``torch.nn.init`` that draws a tensor's first values."""
    match weight.init:
        case base.Constructed():
            raise AssertionError("its class sets it")
        case TruncatedNormal(std=std, cut=cut):
            return f"trunc_normal_(weight, std={std:g}, a={-cut * std:g}, b={cut * std:g})"
        case Normal(std=std):
            return f"normal_(weight, std={std:g})"
        case FanIn() if weight.role == "table":
            return "normal_(weight, std=weight.shape[-1] ** -0.5)"
        case FanIn():
            return "uniform_(weight, -(weight.shape[-1] ** -0.5), weight.shape[-1] ** -0.5)"
        case Uniform(bound=bound):
            return f"uniform_(weight, {-bound:g}, {bound:g})"
        case Constant(value=value, std=std) if std:
            return f"normal_(weight, mean={value:g}, std={std:g})"
        case Constant(last=last) if last is not None:
            return f"constant_(nn.init.zeros_(weight).data[-1:], {last:g})"
        case Constant(value=value):
            return f"constant_(weight, {value:g})"
        case Glorot():
            return "xavier_uniform_(weight if weight.ndim > 1 else weight[None])"
        case _:
            assert_never(weight.init)


MOST_BYTES = 2**20
IMPORTABLE = ("json", "math", "pathlib")
OF_PROGRAM = "All networks of the program on the same rows, and the scores of their heads."
OF_NETWORK = ("objective", "vocab")


def emit_source(resolved: Resolved, settings: str = "") -> str:
    """The program as one file of PyTorch that depends on nothing else, with ``settings`` above."""
    scope, model = record(resolved, lambda model, inputs, _: program_outputs(model, inputs))
    weights = {weight.name: weight for weight in model_weights(resolved)}
    imports, parts, reserved = own_source(model.modules())
    scopes = scopes_in(scope)
    classes = Classes(scopes, weights, constants_of(resolved), OF_PROGRAM, reserved=reserved)
    classes.add(model, "")
    first_values = initial_function(weights.values())
    text = f"{functions_of(scope)}{parts}\n{classes.text}\n{first_values}\n"
    text += forms()["loading"] + forms()["main"]
    modules = [f"import {name}" for name in IMPORTABLE if f"{name}." in text]
    head = [docstring(resolved, settings), "", *modules, *imports, "", forms()["imports"]]
    return "\n".join([*head, *declare_constants(classes.constants, text), "", text])


def docstring(resolved: Resolved, settings: str) -> str:
    """The program, its costs, and where its settings come from."""
    costs, names = estimate(resolved, "h200"), {*resolved.encoder.settings(), *OF_NETWORK}
    stage = costs.stages[-1]
    flops, tokens = units.flops_text(stage.flops.forward_per_example), resolved.stages[-1].seq
    size = f"{costs.parameters.total:,} parameters, {flops} for {tokens} tokens."
    waiting, blocks = list[str](), list[str]()
    for block in re.split(r"\n(?=[^\s)])", settings):
        waiting.append(block)  # a comment is of the setting that follows
        if not block.startswith("#"):
            blocks += waiting if block.split(" =")[0] in names else []
            waiting = []
    part = ["", "Settings, and where they come from:", ""]
    part += [line for block in blocks for line in block.splitlines()]
    first = f'"""{resolved.name or "A program"}: {size}'
    return "\n".join([first, "", forms()["legend"], *(part if blocks else []), '"""'])


def own_source(modules: Iterable[nn.Module]) -> tuple[list[str], str, frozenset[str]]:
    """Imports that classes of the user need, what they need else of their files, and its names."""
    imports, texts, names = list[str](), list[str](), set[str]()
    for part, _ in filter(None, map(written_as, modules)):
        needed, statements = {part.code.rpartition(":")[2]}, ast.parse(part.source).body
        for statement in reversed(statements):  # what is read is above
            defined = _defined_names(statement)
            if defined & needed:
                needed |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                text = ast.get_source_segment(part.source, statement) or ""
                plain = isinstance(statement, ast.Import | ast.ImportFrom)
                if text not in imports + texts and text not in forms()["imports"]:
                    (imports if plain else texts).insert(0, text)
                names |= set() if plain else defined
    return imports, "".join(f"\n\n{text}\n" for text in texts), frozenset(names)


def _defined_names(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module binds."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def functions_of(scope: CallScope) -> str:
    """The functions that make long lists of numbers."""
    calls = (call for inner in scopes_in(scope).values() for call in inner.calls)
    functions = dict[str, str]()
    for listed in (x for call in calls for x in call.args if isinstance(x, LongList)):
        _add_function(listed.node, listed.name, functions)
    return "".join(f"\n{function}\n\n" for function in functions.values())


def _add_function(node: Node, name: str, functions: dict[str, str]) -> None:
    """Add a method of a node as a function, with its fields as numbers, after those it calls."""
    if name in functions:
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(type(node), name))))
    (function,) = (part for part in tree.body if isinstance(part, ast.FunctionDef))
    folded = _Folded(node)
    folded.visit(function)
    for called in sorted(folded.called):
        _add_function(node, called, functions)
    function.args.args = [ast.arg(argument.arg) for argument in function.args.args[1:]]
    function.returns, doc = None, ast.get_docstring(function)
    del function.body[0]
    first, *rest = code(ast.unparse(function)).splitlines()
    functions[name] = "\n".join([first, f'    """{doc}"""', *rest])


class _Folded(ast.NodeTransformer):
    """Fields of ``self`` as numbers, methods as functions."""

    def __init__(self, node: Node) -> None:
        self.node, self.called = node, set[str]()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: N802
        """A field, a method, or another attribute as it is."""
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            self.generic_visit(node)
            return node
        value = getattr(self.node, node.attr)
        if callable(value):
            self.called.add(node.attr)
            return ast.Name(node.attr)
        return ast.Constant(value)
