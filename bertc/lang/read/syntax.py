"""The parser: tokens to items with their spans, or the place of the first mistake.

It looks one token ahead; a test holds it against ``grammar/bertc.lark``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from bertc.base.diagnostics import Source, Span
from bertc.lang.read import numbers, tree
from bertc.lang.read.scan import END, Token

PartT = TypeVar("PartT")
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|.)")
_ESCAPED = {"n": "\n", "t": "\t"}


class Mistake(NamedTuple):
    """The index of the first token that the grammar does not allow, and the kinds that it does.

    The index is the number of tokens if they end too early.
    """

    place: int
    expected: frozenset[str]


class _UnexpectedError(Exception):
    """The next token is none that may stand there."""


def parse_items(tokens: Sequence[Token], source: Source) -> tuple[list[tree.Item], Mistake | None]:
    """The items of a token list, or those before its first mistake and that."""
    parser, items = _Parser(tokens, source), list[tree.Item]()
    try:
        while not parser.takes(END):
            items.append(parser.item())
    except _UnexpectedError:
        return items, Mistake(parser.place, frozenset(parser.expected))
    return items, None


class _Parser:
    """A method for each rule of the grammar; ``expected`` are the kinds that were looked for."""

    def __init__(self, tokens: Sequence[Token], source: Source) -> None:
        end = tokens[-1].end if tokens else 0
        self.tokens, self.source = (*tokens, Token(END, "", end, end)), source
        self.place, self.expected = 0, set[str]()

    def at(self, *kinds: str) -> bool:
        self.expected.update(kinds)
        return self.tokens[self.place].kind in kinds

    def take(self, *kinds: str) -> Token:
        if not self.at(*kinds):
            raise _UnexpectedError
        self.expected.clear()
        self.place += 1
        return self.tokens[self.place - 1]

    def takes(self, kind: str) -> bool:
        """Take a token if it is of a kind."""
        return self.at(kind) and bool(self.take(kind))

    def span(self, first: int) -> Span:
        """The span from a token to the last one that was taken."""
        return Span(self.source, self.tokens[first].start, self.tokens[self.place - 1].end)

    def item(self) -> tree.Item:
        first, opening = self.place, self.take("EXTENDS", "NAME")
        if opening.kind == "EXTENDS":
            return tree.Extends(target=self.leaf("NAME", "STRING"), span=self.span(first))
        name = tree.Name(self.span(first), opening.text)
        if self.takes("EQUAL"):
            return tree.Setting(name=name, value=self.value(), span=self.span(first))
        label = self.leaf("STRING") if self.at("STRING") else None
        self.take("LBRACE")
        inside = list[tree.Item]()
        while not self.takes("RBRACE"):
            inside.append(self.item())
        return tree.Block(self.span(first), name, label, tuple(inside))

    def value(self) -> tree.Value:
        first, terms = self.place, [self.term()]
        while self.takes("PLUS"):
            terms.append(self.term())
        return tree.Sum(self.span(first), tuple(terms)) if len(terms) > 1 else terms[0]

    def term(self) -> tree.Value:
        first, factor = self.place, self.atom()
        if not self.takes("STAR"):
            return factor
        term = self.atom()
        if isinstance(term, tree.Number) and not isinstance(factor, tree.Number):
            factor, term = term, factor
        return tree.Scaled(self.span(first), factor, term)

    def atom(self) -> tree.Value:
        first = self.place
        if self.takes("LSQB"):
            return tree.Series(items=self.several(self.value, "RSQB"), span=self.span(first))
        if self.takes("LBRACE"):
            return tree.Grid(items=self.several(self.value, "RBRACE"), span=self.span(first))
        parts = [self.leaf("NAME", "STRING", "RANGE", "NUMBER")]
        if isinstance(parts[0], tree.Name) and self.takes("LPAR"):
            arguments = self.several(self.argument, "RPAR")
            return tree.Call(self.span(first), parts[0], arguments)
        while isinstance(parts[0], tree.Number) and self.takes("SLASH"):
            parts.append(self.leaf("NUMBER"))
        return tree.Ratio(self.span(first), tuple(parts)) if len(parts) > 1 else parts[0]

    def several(self, part: Callable[[], PartT], end: str) -> tuple[PartT, ...]:
        """Parts with commas between, perhaps one at the end; only a grid has one at least."""
        parts = [part()] if end == "RBRACE" else []
        while (not parts or self.takes("COMMA")) and not self.at(end):
            parts.append(part())
        self.take(end)
        return tuple(parts)

    def argument(self) -> tree.Argument:
        first, value = self.place, self.value()
        if isinstance(value, tree.Name) and self.takes("EQUAL"):
            return tree.Argument(name=value, value=self.value(), span=self.span(first))
        return tree.Argument(value.span, None, value)

    def leaf(self, *kinds: str) -> Any:
        """The node of a word or a number."""
        token, span = self.take(*kinds), self.span(self.place - 1)
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
        return tree.String(span, _ESCAPE.sub(_unescape, token.text[1:-1]))


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
        return _ESCAPED.get(code, code)
    point = int(code[2:-1], 16)
    no_character = point > 0x10FFFF or 0xD800 <= point < 0xE000
    return "\ufffd" if no_character else chr(point)
