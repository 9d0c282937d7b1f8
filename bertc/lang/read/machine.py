"""The parser's automaton: tokens to nodes with their spans, and the place of the first mistake."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from bertc.base.diagnostics import Source, Span
from bertc.lang.read import numbers, tree
from bertc.lang.read.grammar import END, Production, grammar
from bertc.lang.read.scan import Token

Child = Token | tree.Placed
"""A part of a rule: a sign, or the node of a word, a value or a rule."""
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
OF_SEVERAL = {"list": tree.Series, "grid": tree.Grid, "sum": tree.Sum}
"""The nodes of rules that have values alone."""


class Builder(NamedTuple):
    """A builder of the nodes of one source."""

    source: Source

    def node(self, rule: str, children: list[Child]) -> tree.Placed:
        """The node of a rule, from its tokens and the nodes below it."""
        span = self.span(children[0], children[-1])
        parts: list[Any] = [child for child in children if not isinstance(child, Token)]
        match rule:
            case "setting":
                return tree.Setting(span, *parts)
            case "extends":
                return tree.Extends(span, *parts)
            case "block":
                name, *inside = parts
                label = inside.pop(0) if inside and isinstance(inside[0], tree.String) else None
                return tree.Block(span, name, label, tuple(inside))
            case "call":
                name, *inside = parts
                named = (
                    i if isinstance(i, tree.Argument) else tree.Argument(i.span, None, i)
                    for i in inside
                )
                return tree.Call(span, name, tuple(named))
            case "named":
                return tree.Argument(span, *parts)
            case "list" | "grid" | "sum":
                return OF_SEVERAL[rule](span, tuple(parts))
            case "ratio":
                return tree.Ratio(span, tuple(parts))
            case "scaled":
                first, second = parts
                swap = isinstance(second, tree.Number) and not isinstance(first, tree.Number)
                return tree.Scaled(span, *((second, first) if swap else (first, second)))
        raise AssertionError(f"the grammar has a rule {rule} that is not built")

    def leaf(self, token: Token) -> Child:
        """A token that is a word or a value, as such; a sign unchanged."""
        span = self.span(token, token)
        match token.kind:
            case "NUMBER":
                return _number(span)
            case "RANGE":  # two numbers, and perhaps a scale
                ends = numbers.range_ends(token.text)
                low, high = (Span(self.source, token.start + a, token.start + b) for a, b in ends)
                scale = token.text.partition(":")[2].strip()
                return tree.Range(span, _number(low), _number(high), scale)
            case "NAME":
                return tree.Name(span, token.text)
            case "STRING":
                return tree.String(span, _ESCAPE.sub(_unescape, token.text[1:-1]))
        return token

    def span(self, first: Child, last: Child) -> Span:
        """The span from the start of one to the end of the other."""
        start = first.start if isinstance(first, Token) else first.span.start
        end = last.end if isinstance(last, Token) else last.span.end
        return Span(self.source, start, end)


def _number(span: Span) -> tree.Number:
    text = span.text
    try:
        value = numbers.read_number(text)
    except numbers.NotANumberError:  # reported by the scanner
        return tree.Number(span, text, None)
    unit = numbers.unit_of(text)
    return tree.Number(span, text, value, numbers.HOURS_UNIT if unit in numbers.HOURS else unit)


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 1:
        return _ESCAPED.get(code, f"\\{code}")  # as in regular expressions
    point = int(code[2:-1], 16)
    no_character = point > 0x10FFFF or 0xD800 <= point < 0xE000
    return "\ufffd" if no_character else chr(point)


class Mistake(NamedTuple):
    """The index of the first token that the grammar does not allow, and the kinds that it does.

    The index is the number of tokens if they end too early.
    """

    place: int
    expected: frozenset[str]


def parse_items(tokens: Sequence[Token], source: Source) -> tuple[list[tree.Item], Mistake | None]:
    """The items of a correct token list, or none and its first mistake."""
    builder, states = Builder(source), [grammar().start]
    values: list[Child | list[Child]] = []
    end = tokens[-1].end if tokens else 0
    for place, token in enumerate((*tokens, Token(END, "", end, end))):
        before = states.copy()
        completed = _advance(states, token.kind)
        if completed is None:
            kinds = {kind for row in grammar().actions for kind in row}
            allowed = (kind for kind in kinds if _advance(before.copy(), kind) is not None)
            return [], Mistake(place, frozenset(allowed))
        for production in completed:
            cut = len(values) - production.length
            parts = values[cut:]
            values[cut:] = [_reduce(production, parts, builder)]
        values.append(builder.leaf(token))
    return [child for child in _flat(values) if isinstance(child, tree.Item)], None


def _advance(states: list[int], kind: str) -> list[Production] | None:
    """Move the states over a terminal: the rules that it completes, or None if it cannot come."""
    table, completed = grammar(), list[Production]()
    while (state := states[-1]) != table.final:
        action = table.actions[state].get(kind)
        if action is None:
            return None
        if action >= 0:
            states.append(action)
            return completed
        production = table.productions[-1 - action]
        del states[len(states) - production.length :]
        states.append(table.gotos[states[-1]][production.name])
        completed.append(production)
    return completed if kind == END else None


def _reduce(
    production: Production, parts: list[Child | list[Child]], builder: Builder
) -> Child | list[Child]:
    """The node of a rule; the rule's list of parts where it is not a node by itself."""
    if production.inline or production.name == "start":
        return _flat(parts)
    if production.lone and len(parts) == 1:
        return parts[0]
    return builder.node(production.name, _flat(parts))


def _flat(parts: list[Child | list[Child]]) -> list[Child]:
    """A flat list of the parts; a first list grows in place, so that long lists stay cheap."""
    first = parts[0] if parts else []
    joined = first if isinstance(first, list) else [first]
    for part in parts[1:]:
        if isinstance(part, list):
            joined += part
        else:
            joined.append(part)
    return joined
