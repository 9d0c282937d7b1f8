"""Statements of layers that are alike, as loops."""

import ast
import re
import textwrap
from collections.abc import Sequence
from itertools import groupby

from bertc.use.source.expressions import code


def roll_up(made: list[tuple[int, str]], depth: int) -> list[str]:
    """Statements, each with the number of its segment (0: none), where like segments are a loop.

    ``depth`` is the number of layers, written as LAYERS.
    """
    groups = [
        (segment, [statement for _, statement in group])
        for segment, group in groupby(made, key=lambda pair: pair[0])
    ]
    shapes = [_shape("\n".join(group)) if segment else "" for segment, group in groups]
    result: list[str] = []
    begin = 0
    while begin < len(groups):
        period, end = _find_repeated(shapes, begin)
        if end - begin > period:
            turns = [
                [s for _, group in groups[first : first + period] for s in group]
                for first in range(begin, end, period)
            ]
            result.append(_loop(turns, depth))
        else:
            result += groups[begin][1]
        begin = end
    return result


def _find_repeated(shapes: list[str], first: int) -> tuple[int, int]:
    """The length of the shortest sequence of shapes that repeats from here, and its end."""
    for period in range(1, (len(shapes) - first) // 2 + 1):
        end = first + period
        while end < len(shapes) and shapes[end] and shapes[end] == shapes[end - period]:
            end += 1
        end -= (end - first) % period
        if end - first > period and all(shapes[first:end]):
            return period, end
    return 1, first + 1


def _shape(statements: str) -> str:
    """Statements without plain values, and without names but those that they assign."""
    tree = ast.parse(statements)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assigned = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = 0
        if isinstance(node, ast.Name) and node.id not in assigned:
            node.id = "-"
    return ast.dump(tree)


def _loop(turns: list[list[str]], depth: int) -> str:
    """One loop over what differs between turns."""
    columns, text = dict[tuple[str, ...], str](), ""  # of words that differ
    for words in zip(*map(_words, turns), strict=True):
        if len(set(words)) > 1:
            name = f"{words[0].rstrip('0123456789')}_of_layer" if words[0][0].isalpha() else "layer"
            known = set(columns.values()) - {columns.get(words)}
            columns.setdefault(words, f"{name}{len(columns)}" if name in known else name)
        text += columns.get(words, words[0])
    numbers = next((values for values in columns if _consecutive(values)), None)
    names = [name for values, name in columns.items() if values != numbers]
    rows = [_row(values) for values in zip(*(v for v in columns if v != numbers), strict=True)]
    if not columns:
        return _for("_", range_expression(0, len(turns), depth), text)
    first, layer = (0, "") if numbers is None else (int(numbers[0]), columns[numbers])
    chosen = _chosen(rows, first, layer) if layer and rows else ""
    if rows and not chosen:
        rows = [_row(values) for values in zip(*columns, strict=True)]
        return _for(", ".join(columns.values()), _row(rows), text)
    if chosen:
        text = f"{', '.join(names)} = {chosen}\n{text}"
    end, part = first + len(turns), rf"self\.(\w+)\[{layer}\]"
    parts, named = list(dict.fromkeys(re.findall(part, text))), re.sub(part, r"\1", text)
    if not parts or re.search(rf"\b{layer}\b", named):
        return _for(layer, range_expression(first, end, depth), text)
    bounds = f"[{first or ''}:{'' if end == depth else end}]"
    lists = ", ".join(f"self.{part}{'' if bounds == '[:]' else bounds}" for part in parts)
    return _for(", ".join(parts), lists if len(parts) == 1 else f"zip({lists})", named)


def _words(statements: list[str]) -> list[str]:
    """Names, numbers, strings, and the characters between them."""
    text = code("\n".join(statements))
    return re.findall(r"[A-Za-z_]\w*|\d[\w.]*(?:(?<=e)-\d+)?|\"[^\"]*\"|\W", text)


def _for(target: str, over: str, text: str) -> str:
    return f"for {target} in {over}:\n{textwrap.indent(text, '    ')}"


def _chosen(rows: list[str], first: int, layer: str) -> str:
    """The row of a layer, where one of two rows comes at regular layers; else ''."""
    rare, often = sorted(set(rows), key=rows.count)[:2]
    places = [n for n, row in enumerate(rows, first) if row == rare]
    period = places[1] - places[0] if len(places) > 1 else 0
    numbers = range(first, first + len(rows)) if period else ()
    expected = [n for n in numbers if n % period == places[0] % period]
    if len(set(rows)) > 2 or places != expected:
        return ""
    return f"{rare} if {layer} % {period} == {places[0] % period} else {often}"


def _row(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _consecutive(values: tuple[str, ...]) -> bool:
    first = int(values[0]) if values[0].isdigit() else -1
    return first >= 0 and values == tuple(map(str, range(first, first + len(values))))


def range_expression(first: int, end: int, depth: int) -> str:
    """A range of layers, of which there are ``depth``."""
    last = "LAYERS" if end == depth else str(end)
    return f"range({first}, {last})" if first else f"range({last})"
