"""Scanning of any text to tokens and comments; unknown characters are reported and dropped."""

import re
from typing import NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Source, Span
from bertc.lang.read import numbers
from bertc.lang.read.grammar import END, grammar
from bertc.lang.read.tree import Comment

LARGEST_TEXT = 1 << 20
MOST_TOKENS = 20_000
MAX_DEPTH = 64
LONGEST_STRING = 4096
MOST_STRAYS = 20
MOST_MISTAKES = 100
"""Mistakes after which reading stops: the text is no spec, or one mistake causes the others."""

OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSERS = frozenset(OPENERS.values())
SPELLING = {
    "EQUAL": "=", "COMMA": ",", "PLUS": "+", "STAR": "*", "SLASH": "/", "LPAR": "(", "RPAR": ")",
    "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}",
}  # fmt: skip

_STRAY = re.compile(r"[^\x21-\x7e \t\r\n]+|.", re.DOTALL)
_CURLY_STRING = re.compile(
    '[\u201c\u201d\u201e\u2018\u2019\u00ab]([^\u201c\u201d\u2019\u00bb"\\\\\n]*)[\u201c\u201d\u2019\u00bb]'
)
_PATH = re.compile(
    r"(?<![\w.~/-])(?:[A-Za-z_.~][\w.~-]*+)?(?:/[\w.~*?-]*+)++"
    r"|[A-Za-z_](?a:[\w-])*+(?:\.[A-Za-z](?a:[\w-])*+)++(?!\s*=)"
)
_SIGNS = frozenset(" \n\t\r=(),+*[]{}#")  # they begin no path
_OPEN_STRING = re.compile(r"[\"'][^\s()\[\]{},\"']*")


class Token(NamedTuple):
    """A terminal of the grammar with its place."""

    kind: str
    text: str
    start: int
    end: int

    def quote(self) -> str:
        """The token in a message."""
        if self.kind == END:
            return "the end"
        return f"`{self.text if len(self.text) <= 40 else self.text[:37] + '...'}`"


def scan(source: Source, diagnostics: Diagnostics) -> tuple[list[Token], list[Comment]]:
    """Scan a text to tokens and comments; none, and a report, if it exceeds the limits."""
    if len(source.text) > LARGEST_TEXT:
        message = f"a spec of {len(source.text):,} characters; at most {LARGEST_TEXT:,} are read"
        diagnostics.error("E011", message, Span(source, 0, 0))
        return [], []
    return _Scanner(source, diagnostics).run()


class _Scanner:
    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.depth = 0
        self.strays = 0

    def run(self) -> tuple[list[Token], list[Comment]]:
        text, position = self.source.text, 0
        pattern = grammar().pattern
        while position < len(text):
            if text[position] not in _SIGNS and (end := self.path(position)):
                position = end
                continue
            match = pattern.match(text, position)
            if match is None:
                if self.strays >= MOST_STRAYS:
                    message = f"more than {MOST_STRAYS} such mistakes; the rest is not read"
                    self.too_much(message, position, position + 1)
                    break
                position = self.stray(position)
                continue
            kind, position = str(match.lastgroup), match.end()
            if kind == "STRING" and text[position : position + 1].isalnum():
                # It swallowed the next opening quote.
                position = self.open_string(match.start())
                continue
            if kind == "COMMENT":
                self.comments.append(Comment(self.span(*match.span()), match.group().rstrip()))
            elif kind != "SPACE" and not self.add(Token(kind, match.group(), *match.span())):
                return [], []
        return self.tokens, self.comments

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def add(self, token: Token) -> bool:
        """Add a token; False if the text exceeds the limits."""
        if token.kind == "NUMBER":
            self.check_number(self.span(token.start, token.end))
        if token.kind == "RANGE":
            for start, end in numbers.range_ends(token.text):
                self.check_number(self.span(token.start + start, token.start + end))
        change = (token.kind in OPENERS) - (token.kind in CLOSERS)
        self.depth = max(0, self.depth + change)
        self.tokens.append(token)
        message = ""
        if self.depth > MAX_DEPTH:
            message = f"brackets nested more than {MAX_DEPTH} deep"
        elif token.kind == "STRING" and len(token.text) > LONGEST_STRING:
            message = f"a string of more than {LONGEST_STRING:,} characters"
        elif len(self.tokens) + len(self.comments) > MOST_TOKENS:
            message = f"more than {MOST_TOKENS:,} words, numbers and signs in one spec"
        if message:
            self.too_much(message, token.start, token.end)
        return not message

    def too_much(self, message: str, start: int, end: int) -> None:
        self.diagnostics.error("E011", message, self.span(start, end))

    def check_number(self, span: Span) -> None:
        try:
            numbers.read_number(span.text)
        except numbers.NotANumberError as mistake:
            units, times = (" ".join(u) for u in (numbers.NUMBER_UNITS, numbers.HOURS))
            label = f"units:{units}; of time {times}"
            help = mistake.instead or "numbers are written 12, 0.1, -1, 1e-4, 30k or 15%"
            fix = Fix(span, mistake.instead) if mistake.instead else None
            self.diagnostics.error("E010", str(mistake), span, label=label, help=help, fix=fix)

    def path(self, position: int) -> int:
        """Report a path without quotes; its end, or 0 without one."""
        text = self.source.text
        path = _PATH.match(text, position)
        if not path or path.group().upper() == path.group().lower():  # it has no letters
            return 0
        end = path.end() + (text[path.end() : path.end() + 1] in ("'", '"'))
        return self.instead(f'"{path.group()}"', position, end, "E009", "a path stands in quotes")

    def instead(self, plain: str, start: int, end: int, code: str, message: str) -> int:
        """Report a text that stands for a string, and add that; returns its end."""
        span, help = self.span(start, end), plain if len(plain) <= 60 else "write it so"
        self.diagnostics.error(code, message, span, help=help, fix=Fix(span, plain))
        self.tokens.append(Token("STRING", plain, start, end))
        return end

    def stray(self, position: int) -> int:
        """Report a stray character; returns the position after it."""
        text = self.source.text
        self.strays += 1
        if text[position] in "\"'":
            return self.open_string(position)
        if curly := _CURLY_STRING.match(text, position):
            message = f"`{text[position]}` is no quote that bertc reads"
            return self.instead(f'"{curly[1]}"', position, curly.end(), "E001", message)
        match = _STRAY.match(text, position)
        assert match is not None, "the pattern takes any character"
        end = match.end()
        span = self.span(position, end)
        if text[position] == ":":
            message, label, fixed = "`:` between a name and its value", "write `=`", "="
            self.tokens.append(Token("EQUAL", ":", position, end))
        else:
            message, label = f"{_describe(match.group())} has no meaning here", ""
            fixed = " " if match.group().isspace() else ""
        help, foreign = f"write {fixed}" if fixed.strip() else "remove it", text[position].isalpha()
        if foreign:
            help = "a text with other letters than those of English stands in quotes"
        fix = None if foreign else Fix(span, fixed)
        self.diagnostics.error("E001", message, span, label=label, help=help, fix=fix)
        return end

    def open_string(self, position: int) -> int:
        """Report a quote that is never closed; the string ends with the word."""
        text = self.source.text
        match = _OPEN_STRING.match(text, position)
        assert match is not None, "the pattern takes any quote"
        quote, end = text[position], match.end()
        line = text.find("\n", position)
        # Each open quote costs a look at the rest of its line.
        self.strays += ((line if line >= 0 else len(text)) - position) // 50_000
        self.diagnostics.error(
            "E009",
            "this string is never closed",
            self.span(position, end),
            label="the closing quote is missing",
            help=match.group()[:60] + quote,
            fix=Fix(self.span(end, end), quote),
        )
        self.tokens.append(Token("STRING", match.group().replace("\\", "") + quote, position, end))
        return end


def _describe(stray: str) -> str:
    first = stray[0]
    if first.isprintable() and len(stray) <= 20:
        return f"`{stray}`"
    return f"the character U+{ord(first):04X}" + (" and what follows" if len(stray) > 1 else "")
