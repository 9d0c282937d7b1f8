"""Statements of layers that are alike, as loops."""

import ast
import copy
import re
from itertools import groupby

from bertc.use.source.expressions import code, dotted


def rolled(made: list[tuple[int, ast.stmt]], depth: int) -> list[ast.stmt]:
    """Statements, each with the number of its segment (0: none), where like segments are a loop.

    ``depth`` is the number of layers, written as LAYERS.
    """
    groups = [
        (segment, [statement for _, statement in group])
        for segment, group in groupby(made, key=lambda pair: pair[0])
    ]
    result: list[ast.stmt] = []
    at = 0
    while at < len(groups):
        period, end = _repeated(groups, at)
        if end - at > period:
            turns = [
                [s for _, group in groups[first : first + period] for s in group]
                for first in range(at, end, period)
            ]
            result.append(_loop(turns, depth))
        else:
            result += groups[at][1]
            end = at + 1
        at = end
    return result


def _repeated(groups: list[tuple[int, list[ast.stmt]]], at: int) -> tuple[int, int]:
    """The length of the shortest sequence of segments that repeats from here, and its end."""
    shapes = [_shape(group) if segment else "" for segment, group in groups]
    for period in range(1, (len(groups) - at) // 2 + 1):
        end = at + period
        while end < len(groups) and shapes[end] and shapes[end] == shapes[end - period]:
            end += 1
        end -= (end - at) % period
        if end - at > period and all(shapes[at:end]):
            return period, end
    return 1, at + 1


def _shape(statements: list[ast.stmt]) -> str:
    """Statements without plain values, and without names but those that they assign."""
    copied = copy.deepcopy(statements)
    nodes = [node for statement in copied for node in ast.walk(statement)]
    assigned = _assigned(copied)
    for node in nodes:
        if isinstance(node, ast.Constant):
            node.value = 0
        if isinstance(node, ast.Name) and node.id not in assigned:
            node.id = "-"
    return "\n".join(map(ast.dump, copied))


def _assigned(statements: list[ast.stmt]) -> set[str]:
    targets = [s.targets[0] for s in statements if isinstance(s, ast.Assign)]
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _loop(turns: list[list[ast.stmt]], depth: int) -> ast.stmt:
    """One loop over what differs between turns."""
    body, count = copy.deepcopy(turns[0]), len(turns)
    walks = [[node for statement in turn for node in ast.walk(statement)] for turn in turns]
    columns: dict[tuple[str, ...], str] = {}
    replaced: dict[int, str] = {}
    for place, node in enumerate(n for statement in body for n in ast.walk(statement)):
        if not isinstance(node, (ast.Constant, ast.Name)):
            continue
        values = tuple(code(walk[place]) for walk in walks)
        if len(set(values)) > 1:
            name = "layer"
            if isinstance(node, ast.Name):
                name = f"{node.id.rstrip('0123456789')}_of_layer"
            taken = set(columns.values()) - {columns.get(values)}
            columns.setdefault(values, f"{name}{len(columns)}" if name in taken else name)
            replaced[place] = columns[values]
    named = _Named(replaced)
    body = [named.renamed(statement) for statement in body]
    if not columns:
        return ast.For(ast.Name("_"), _range(0, count, depth), body, [])
    numbers = next((values for values in columns if _consecutive(values)), None)
    others = [values for values in columns if values != numbers]
    if numbers is None:
        return _listed(columns, body)
    first, layer = int(numbers[0]), ast.Name(columns[numbers])
    if others:
        chosen = _chosen(list(zip(*others, strict=True)), first, layer)
        if chosen is None:
            return _listed(columns, body)
        names: list[ast.expr] = [ast.Name(columns[values]) for values in others]
        body.insert(0, ast.Assign([names[0] if len(names) == 1 else ast.Tuple(names)], chosen))
    if parts := _indexed(body, columns[numbers]):
        ends = (first, first + count, depth)
        lists = [dotted(f"self.{part}{_slice(*ends)}") for part in parts]
        over = lists[0] if len(parts) == 1 else ast.Call(ast.Name("zip"), lists, [])
        names = [ast.Name(part) for part in parts]
        target = names[0] if len(parts) == 1 else ast.Tuple(names)
        return ast.For(target, over, [_Parts(parts).visit(statement) for statement in body], [])
    return ast.For(layer, _range(first, first + count, depth), body, [])


def _indexed(body: list[ast.stmt], layer: str) -> list[str]:
    """The lists that are read at ``layer``, if it is read for nothing else."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    parts = [part for node in nodes if (part := _part_at(node, layer))]
    uses = sum(isinstance(node, ast.Name) and node.id == layer for node in nodes)
    return list(dict.fromkeys(parts)) if uses == len(parts) else []


def _part_at(node: ast.AST, layer: str) -> str:
    """The attribute of self that a node reads at ``layer``, or ''."""
    written = code(node) if isinstance(node, ast.Subscript) else ""
    match = re.fullmatch(rf"self\.(\w+)\[{layer}\]", written)
    return match[1] if match else ""


def _slice(first: int, end: int, depth: int) -> str:
    return f"[{first or ''}:{'' if end == depth else end}]" if first or end != depth else ""


class _Parts(ast.NodeTransformer):
    """Puts the names of parts in place of entries of lists."""

    def __init__(self, parts: list[str]) -> None:
        self._parts = parts

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:  # noqa: N802
        """The part's name, or the node as it is."""
        match = re.fullmatch(r"self\.(\w+)\[layer\w*\]", code(node))
        if match and match[1] in self._parts:
            return ast.Name(match[1])
        self.generic_visit(node)
        return node


def _listed(columns: dict[tuple[str, ...], str], body: list[ast.stmt]) -> ast.stmt:
    """A loop over what differs, written out."""
    rows = [_row(values) for values in zip(*columns, strict=True)]
    names: list[ast.expr] = [ast.Name(name) for name in columns.values()]
    return ast.For(names[0] if len(names) == 1 else ast.Tuple(names), ast.Tuple(rows), body, [])


def _chosen(rows: list[tuple[str, ...]], first: int, layer: ast.expr) -> ast.expr | None:
    """The row of a layer, where one of two rows comes at regular layers; else None."""
    rare, often = sorted(set(rows), key=rows.count)[:2]
    places = [first + number for number, row in enumerate(rows) if row == rare]
    period = places[1] - places[0] if len(places) > 1 else 0
    expected = [
        n for n in range(first, first + len(rows)) if period and n % period == places[0] % period
    ]
    if len(set(rows)) > 2 or places != expected:
        return None
    rest = ast.BinOp(layer, ast.Mod(), ast.Constant(period))
    test = ast.Compare(rest, [ast.Eq()], [ast.Constant(places[0] % period)])
    return ast.IfExp(test, _row(rare), _row(often))


def _row(values: tuple[str, ...]) -> ast.expr:
    written = [dotted(value) for value in values]
    return written[0] if len(written) == 1 else ast.Tuple(written)


def _consecutive(values: tuple[str, ...]) -> bool:
    first = int(values[0]) if values[0].isdigit() else -1
    return first >= 0 and values == tuple(map(str, range(first, first + len(values))))


def _range(first: int, end: int, depth: int) -> ast.expr:
    last = ast.Name("LAYERS") if end == depth else ast.Constant(end)
    arguments: list[ast.expr] = [ast.Constant(first), last] if first else [last]
    return ast.Call(ast.Name("range"), arguments, [])


class _Named(ast.NodeTransformer):
    """Puts names in certain places, counted as a walk over all statements counts them."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names, self._first, self._places = names, 0, dict[int, int]()

    def renamed(self, statement: ast.stmt) -> ast.stmt:
        """A statement with its names."""
        nodes = list(ast.walk(statement))
        self._places = {id(node): self._first + place for place, node in enumerate(nodes)}
        self._first += len(nodes)
        changed = self.visit(statement)
        assert isinstance(changed, ast.stmt), "only names change"
        return changed

    def visit(self, node: ast.AST) -> ast.AST:
        """The name of its place, or the node as it is."""
        name = self._names.get(self._places.get(id(node), -1))
        return ast.Name(name) if name else self.generic_visit(node)
