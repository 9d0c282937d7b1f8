"""Tokens to tree nodes by recursive descent: a method for each rule of ``grammar/bertc.lark``."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from bertc.base.diagnostics import Source, Span
from bertc.lang.read.numbers import (
    HOURS,
    HOURS_UNIT,
    NotANumberError,
    counted_in,
    range_ends,
    read_number,
)
from bertc.lang.read.scan import END, Token
from bertc.lang.read.tree import (
    Argument,
    Block,
    Call,
    Extends,
    Grid,
    Item,
    Name,
    Number,
    Range,
    Ratio,
    Scaled,
    Series,
    Setting,
    String,
    Sum,
    Value,
)

_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|.)")
_ESCAPED = {"n": "\n", "t": "\t"}


class Mistake(NamedTuple):
    """The index of the first token that the grammar does not allow, and the kinds that it does.

    The index is the number of tokens if they end too early.
    """

    place: int
    expected: frozenset[str]


def parse_items(tokens: Sequence[Token], source: Source) -> tuple[list[Item], Mistake | None]:
    """The items of a token list as far as they are correct, and its first mistake."""
    parser, items = _Parser(tokens, source), list[Item]()
    try:
        while not parser.accept(END):
            items.append(parser.item())
    except _MistakeError:
        return items, Mistake(parser.place, frozenset(parser.expected))
    return items, None


class _MistakeError(Exception):
    """A token that the grammar does not allow; the parser has its place."""


class _Parser:
    def __init__(self, tokens: Sequence[Token], source: Source) -> None:
        end = tokens[-1].end if tokens else 0
        self.tokens = [*tokens, Token(END, "", end, end)]
        self.source = source
        self.place = 0
        self.expected: set[str] = set()

    def at(self, *kinds: str) -> bool:
        """True if the next token is of one of these kinds, which are all allowed here."""
        self.expected.update(kinds)
        return self.tokens[self.place].kind in kinds

    def take(self, *kinds: str) -> Token:
        """The next token, of one of these kinds."""
        if not self.at(*kinds):
            raise _MistakeError
        self.place += 1
        self.expected.clear()
        return self.tokens[self.place - 1]

    def accept(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        return self.at(kind) and bool(self.take(kind))

    def since(self, start: int) -> Span:
        """The span from an offset to the last token."""
        return Span(self.source, start, self.tokens[self.place - 1].end)

    def item(self) -> Item:
        if self.at("EXTENDS"):
            start = self.take("EXTENDS").start
            word = self.take("NAME", "STRING")
            target = self.name(word) if word.kind == "NAME" else self.string(word)
            return Extends(self.since(start), target)
        word = self.take("NAME")
        if self.accept("EQUAL"):
            value = self.value()
            return Setting(self.since(word.start), self.name(word), value)
        label = self.string(self.take("STRING")) if self.at("STRING") else None
        self.take("LBRACE")
        items = []
        while not self.accept("RBRACE"):
            items.append(self.item())
        return Block(self.since(word.start), self.name(word), label, tuple(items))

    def value(self) -> Value:
        terms = [self.term()]
        while self.accept("PLUS"):
            terms.append(self.term())
        return Sum(self.since(terms[0].span.start), tuple(terms)) if terms[1:] else terms[0]

    def term(self) -> Value:
        first = self.atom()
        if not self.accept("STAR"):
            return first
        second = self.atom()
        span = self.since(first.span.start)
        swap = isinstance(second, Number) and not isinstance(first, Number)
        return Scaled(span, second, first) if swap else Scaled(span, first, second)

    def atom(self) -> Value:
        token = self.take("NUMBER", "RANGE", "NAME", "STRING", "LSQB", "LBRACE")
        match token.kind:
            case "NUMBER":
                return self.number(token)
            case "RANGE":
                return self.range(token)
            case "NAME":
                return self.named(token)
            case "STRING":
                return self.string(token)
            case "LSQB":
                items = self.values("RSQB")
                return Series(self.since(token.start), tuple(items))
        first = self.value()
        choices = [first, *(self.values("RBRACE", begun=True))]
        return Grid(self.since(token.start), tuple(choices))

    def values(self, closer: str, begun: bool = False) -> list[Value]:
        """Values between commas, and the closing bracket; ``begun``: after the first value."""
        return [argument.value for argument in self.arguments(closer, begun, names=False)]

    def arguments(self, closer: str, begun: bool = False, names: bool = True) -> list[Argument]:
        """Arguments between commas, with ``names`` or not, and the closing bracket."""
        arguments: list[Argument] = []
        while not self.accept(closer):
            if arguments or begun:
                self.take("COMMA")
                if self.accept(closer):
                    break
            arguments.append(self.argument(names))
        return arguments

    def argument(self, names: bool) -> Argument:
        value = self.value()
        if names and isinstance(value, Name) and self.accept("EQUAL"):
            name, value = value, self.value()
            return Argument(self.since(name.span.start), name, value)
        return Argument(value.span, None, value)

    def named(self, token: Token) -> Name | Call:
        name = self.name(token)
        if not self.accept("LPAR"):
            return name
        arguments = self.arguments("RPAR")
        return Call(self.since(token.start), name, tuple(arguments))

    def number(self, token: Token) -> Number | Ratio:
        parts = [_number(self.span(token))]
        while self.accept("SLASH"):
            parts.append(_number(self.span(self.take("NUMBER"))))
        return Ratio(self.since(token.start), tuple(parts)) if parts[1:] else parts[0]

    def range(self, token: Token) -> Range:
        low, high = (
            _number(Span(self.source, token.start + start, token.start + end))
            for start, end in range_ends(token.text)
        )
        return Range(self.span(token), low, high, token.text.partition(":")[2].strip())

    def name(self, token: Token) -> Name:
        return Name(self.span(token), token.text)

    def string(self, token: Token) -> String:
        return String(self.span(token), _ESCAPE.sub(_unescape, token.text[1:-1]))

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)


def _number(span: Span) -> Number:
    text = span.text
    try:
        value = read_number(text)
    except NotANumberError:  # reported by the scanner
        return Number(span, text, None)
    unit = counted_in(text)
    return Number(span, text, value, text.endswith("%"), HOURS_UNIT if unit in HOURS else unit)


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    point = int(code[2:-1], 16)
    no_character = point > 0x10FFFF or 0xD800 <= point < 0xE000
    return "\ufffd" if no_character else chr(point)
